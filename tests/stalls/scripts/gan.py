"""Two networks, two optimisers, one turn of the loop."""

import torch
from torch import nn

device = "cuda"
nz = 4
torch.manual_seed(0)
netG = nn.Sequential(nn.Linear(nz, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)  # expect: host_to_device=4
netD = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid()).to(device)  # expect: host_to_device=4
criterion = nn.BCELoss()
fixed_noise = torch.randn(4, nz, device=device)
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))

for i in range(4):
    # real
    netD.zero_grad()
    real = torch.randn(8, 2).to(device)  # expect: host_to_device=steps
    label = torch.full((8,), 1.0, dtype=torch.float, device=device)
    output = netD(real).view(-1)
    errD_real = criterion(output, label)
    errD_real.backward()
    D_x = output.mean().item()  # expect: read=steps
    # fake
    noise = torch.randn(8, nz, device=device)
    fake = netG(noise)
    label.fill_(0.0)
    output = netD(fake.detach()).view(-1)
    errD_fake = criterion(output, label)
    errD_fake.backward()
    optimizerD.step()
    # generator
    netG.zero_grad()
    label.fill_(1.0)
    output = netD(fake).view(-1)
    errG = criterion(output, label)
    errG.backward()
    D_G_z2 = output.mean().item()  # expect: read=steps
    optimizerG.step()
    if i % 2 == 0:
        print("[%d] D %.4f G %.4f" % (i, (errD_real + errD_fake).item(), errG.item()))  # expect: read=2*2
with torch.no_grad():
    samples = netG(fixed_noise).detach().cpu()  # expect: device_to_host=1
