"""An evaluation script: load a checkpoint, run over a test set, print accuracy, exit with a status."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(argv):
    limit = int(argv[1]) if len(argv) > 1 else None
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    checkpoint = {k: v.clone() for k, v in model.state_dict().items()}
    model = model.cuda().eval()  # expect: host_to_device=2
    model.load_state_dict(checkpoint)  # expect: host_to_device=2
    test_set = TensorDataset(torch.randn(40, 6), torch.randint(3, (40,)))
    correct, predictions = 0, []
    with torch.inference_mode():
        for i, (x, y) in enumerate(DataLoader(test_set, batch_size=8, num_workers=2)):
            if limit is not None and i >= limit:
                break
            output = model(x.to("cuda"))  # expect: host_to_device=steps
            pred = output.argmax(dim=1)
            correct += (pred == y.cuda()).sum().item()  # expect: host_to_device=steps, read=steps
            predictions.extend(pred.cpu().numpy())  # expect: device_to_host=steps
    print(f"accuracy {correct / len(predictions):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
