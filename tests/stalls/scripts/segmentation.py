"""Semantic segmentation: ignored pixels, class weights, Dice, IoU by hand."""

import torch
import torch.nn.functional as F
from torch import nn

CLASSES, IGNORE = 4, 255


def batches(n):
    generator = torch.Generator(device="cuda").manual_seed(1)
    for _ in range(n):
        image = torch.randn(2, 3, 16, 16, device="cuda", generator=generator)
        mask = torch.randint(0, CLASSES, (2, 16, 16), device="cuda", generator=generator)
        mask[:, :2] = IGNORE
        yield image, mask


def dice_loss(logits, mask):
    valid = mask != IGNORE
    onehot = F.one_hot(mask[valid], CLASSES).float()  # expect: shape_read=steps
    probabilities = logits.softmax(1).permute(0, 2, 3, 1)[valid]  # expect: shape_read=2*steps
    return 1 - (2 * (probabilities * onehot).sum() / (probabilities + onehot).sum())


def intersection_over_union(logits, mask):
    pred = logits.argmax(1)
    keep = mask != IGNORE
    joint = CLASSES * mask[keep] + pred[keep]  # expect: shape_read=2*steps
    confusion = torch.bincount(joint, minlength=CLASSES**2).view(CLASSES, CLASSES)  # expect: shape_read=2*steps
    hit = confusion.diagonal()
    return (hit / (confusion.sum(0) + confusion.sum(1) - hit)).nanmean()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, padding=1)
        self.out = nn.Conv2d(8, CLASSES, 1)

    def forward(self, x):
        return self.out(F.relu(self.down(x)))


def main():
    model = Net().to("cuda")  # expect: host_to_device=4
    weights = torch.tensor([0.5, 1.0, 1.0, 2.0], device="cuda")  # expect: host_to_device=1
    criterion = nn.CrossEntropyLoss(weight=weights, ignore_index=IGNORE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history = []
    for image, mask in batches(3):
        logits = model(image)
        loss = criterion(logits, mask) + dice_loss(logits, mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(intersection_over_union(logits.detach(), mask))
    print(torch.stack(history).tolist())  # expect: read=1


if __name__ == "__main__":
    main()
