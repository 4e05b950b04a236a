"""Image encoders: images ``[n, channels, height, width]`` to features ``[n, size]``."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SmallCNN(nn.Sequential):
    """Three convolutions and a linear layer (Mnih et al. 2015)."""

    def __init__(self, channels: int, height: int, width: int, features: int) -> None:
        layers = [
            nn.Conv2d(channels, 32, 8, 4),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, 64, 4, 2),
            nn.ReLU(inplace=True),
            nn.Conv2d(64, 64, 3, 1),
            nn.ReLU(inplace=True),
            nn.Flatten(),
        ]
        with torch.no_grad():
            size = nn.Sequential(*layers)(torch.zeros(1, channels, height, width)).shape[1]
        super().__init__(*layers, nn.Linear(size, features), nn.ReLU(inplace=True))
        for module in self:
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.orthogonal_(module.weight, math.sqrt(2))
                nn.init.constant_(module.bias, 0.0)  # type: ignore[arg-type]


class _Block(nn.Module):
    """Residual basic block with GroupNorm, a dilated second convolution and layer scale."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(groups, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=2, dilation=2, bias=False)
        self.norm2 = nn.GroupNorm(groups, channels)
        self.scale = nn.Parameter(torch.full((channels, 1, 1), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        branch = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.scale * self.norm2(self.conv2(branch)))


class ResNet18(nn.Module):
    """Half-width ResNet18 of VER (Wijmans et al. 2022, section 4).

    Patchify stem (4x4 convolution, stride 4), GroupNorm, down-sampling in layers of its own
    (GroupNorm and 2x2 convolution, stride 2), layer scale and dilated convolutions.
    """

    def __init__(
        self, channels: int, height: int, width: int, features: int, base: int = 32
    ) -> None:
        super().__init__()
        groups = max(base // 16, 1)
        layers: list[nn.Module] = [
            nn.Conv2d(channels, base, 4, 4, bias=False),
            nn.GroupNorm(groups, base),
        ]
        planes = base
        for stage in range(4):
            if stage:
                layers += [nn.GroupNorm(groups, planes), nn.Conv2d(planes, planes * 2, 2, 2)]
                planes *= 2
            layers += [_Block(planes, groups), _Block(planes, groups)]
        self.body = nn.Sequential(*layers)
        with torch.no_grad():
            cells = self.body(torch.zeros(1, channels, height, width)).shape[2:].numel()
        compressed = max(round(2048 / cells), 1)
        self.compression = nn.Sequential(
            nn.Conv2d(planes, compressed, 3, padding=1, bias=False),
            nn.GroupNorm(1, compressed),
            nn.ReLU(inplace=True),
            nn.Flatten(),
        )
        self.linear = nn.Linear(compressed * cells, features)

    def forward(self, x: Tensor) -> Tensor:
        """Images to features."""
        return F.relu(self.linear(self.compression(self.body(x))))


class _SEFixupBlock(nn.Module):
    """Fixup basic block with squeeze-and-excitation (Shacklett et al. 2021, section 3.3)."""

    def __init__(self, inputs: int, outputs: int, stride: int, blocks: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        names = ("bias1a", "bias1b", "bias2a", "bias2b")
        self.bias = nn.ParameterDict({name: nn.Parameter(torch.zeros(1)) for name in names})
        self.gain = nn.Parameter(torch.ones(1))
        self.squeeze = nn.Linear(outputs, outputs // 16)
        self.excite = nn.Linear(outputs // 16, outputs)
        self.skip: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            pool = nn.AvgPool2d(3, stride, 1) if stride != 1 else nn.Identity()
            self.skip = nn.Sequential(pool, nn.Conv2d(inputs, outputs, 1, bias=False))
        std = math.sqrt(2 / (outputs * 9)) * blocks**-0.5
        nn.init.normal_(self.conv1.weight, std=std)
        nn.init.zeros_(self.conv2.weight)

    def forward(self, x: Tensor) -> Tensor:
        shifted = x + self.bias["bias1a"]
        branch = F.relu(self.conv1(shifted) + self.bias["bias1b"])
        branch = self.conv2(branch + self.bias["bias2a"]) * self.gain + self.bias["bias2b"]
        weights = torch.sigmoid(self.excite(F.relu(self.squeeze(branch.mean((2, 3))))))
        skip = x if self.skip is None else self.skip(shifted)
        return F.relu(branch * weights[:, :, None, None] + skip)


class SEResNet9(nn.Module):
    """SE-ResNet9 of Large Batch Simulation: SpaceToDepth stem, Fixup, no normalisation layers."""

    def __init__(self, channels: int, height: int, width: int, features: int) -> None:
        super().__init__()
        widths, strides = (64, 64, 128, 256, 512), (1, 1, 2, 2, 2)
        layers: list[nn.Module] = [
            nn.PixelUnshuffle(4),
            nn.Conv2d(channels * 16, widths[0], 1, bias=False),
            nn.ReLU(inplace=True),
        ]
        layers += [_SEFixupBlock(widths[i - 1], widths[i], strides[i], 4) for i in range(1, 5)]
        layers += [nn.Conv2d(512, 256, 3, padding=1), nn.ReLU(inplace=True), nn.Flatten()]
        self.body = nn.Sequential(*layers)
        with torch.no_grad():
            size = self.body(torch.zeros(1, channels, height, width)).shape[1]
        self.linear = nn.Linear(size, features, bias=False)
        self.norm = nn.LayerNorm(features)

    def forward(self, x: Tensor) -> Tensor:
        """Images to features."""
        return F.relu(self.norm(self.linear(self.body(x))))
