"""PyTorch metrics that never make the host wait for the GPU, and a stall finder that shows what does wait."""
