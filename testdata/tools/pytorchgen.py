#!/usr/bin/env python3
"""Records programs that PyTorch/XLA hands to XLA: pytorchgen.py OUT.

Needs torch and torch_xla. Writes OUT/NAME/module.hlo, in.K.npy and case.json; the results come from XLA:CPU as everywhere else:
  xla_ref.py run OUT/NAME/module.hlo OUT/NAME/in.*.npy --out OUT/NAME
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OUT = sys.argv[1]
DEVICE = xm.xla_device()
randn = torch.randn


def flat(x):
    if isinstance(x, torch.Tensor):
        return [x]
    return [t for y in x for t in flat(y)] if isinstance(x, (list, tuple)) else []


def case(name, function, *inputs, tolerance=None):
    """What the function computes, as one program; constants it closes over are parameters too."""
    inputs = [t.to(DEVICE) for t in inputs]
    xm.mark_step()
    outputs = flat(function(*inputs))
    text = torch_xla._XLAC._get_xla_tensors_hlo(outputs)
    _, values = torch_xla._XLAC._get_tensors_xla_device_data_node(outputs)
    os.makedirs(f"{OUT}/{name}", exist_ok=True)
    with open(f"{OUT}/{name}/module.hlo", "w") as f:
        f.write(text)
    for k, value in enumerate(values):
        np.save(f"{OUT}/{name}/in.{k}.npy", value.detach().cpu().numpy())
    with open(f"{OUT}/{name}/case.json", "w") as f:
        json.dump({"tolerance": tolerance}, f)
        f.write("\n")


def train(name, model, loss, *inputs, optimizer=lambda p: torch.optim.SGD(p, 0.1), tolerance=None):
    """The loss and the parameters after one step."""
    model = model.to(DEVICE)
    xm.mark_step()
    step = optimizer(model.parameters())

    def run(*arrays):
        step.zero_grad()
        value = loss(model, *arrays)
        value.backward()
        step.step()
        return [value] + list(model.parameters())

    case(name, run, *inputs, tolerance=tolerance)


def with_gradient(name, function, x):
    def run(x):
        x = x.detach().requires_grad_(True)
        y = flat(function(x))
        return y + list(torch.autograd.grad(y[0].sin().sum(), x))

    case(name, run, x)


class First(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)[0]


def classify(model, x, y):
    return F.cross_entropy(model(x), y)


def regress(model, x, y):
    return F.mse_loss(model(x), y)


def mlp():
    return nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 5))


def labels(count, below):
    return torch.randint(0, below, (count,))


torch.manual_seed(0)
train("adamw", mlp(), classify, randn(8, 12), labels(8, 5), optimizer=torch.optim.AdamW)
train("label_smoothing", mlp(), lambda m, x, y: F.cross_entropy(m(x), y, label_smoothing=0.1),
      randn(8, 12), labels(8, 5), optimizer=lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True))
train("kl_div", mlp(), lambda m, x, y: F.kl_div(F.log_softmax(m(x), 1), F.softmax(y, 1), reduction="batchmean"),
      randn(8, 12), randn(8, 5))
train("conv2d", nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Conv2d(4, 8, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)),
      classify, randn(2, 3, 10, 10), labels(2, 5), tolerance=1e-4)
train("conv1d_dilated_groups", nn.Sequential(nn.Conv1d(4, 8, 5, dilation=2, groups=2), nn.LeakyReLU(), nn.AvgPool1d(3, 2, 1)),
      regress, randn(2, 4, 30), randn(2, 8, 11))
train("conv3d", nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.SiLU(), nn.MaxPool3d(2)),
      regress, randn(1, 2, 4, 6, 6), randn(1, 4, 2, 3, 3), tolerance=1e-4)
train("conv_transpose", nn.Sequential(nn.ConvTranspose2d(3, 4, 4, stride=2, padding=1, output_padding=1), nn.ELU(),
                                      nn.ConvTranspose2d(4, 2, 3, groups=2, dilation=2)),
      regress, randn(1, 3, 5, 5), randn(1, 2, 15, 15))
train("lstm", First(nn.LSTM(4, 6, batch_first=True)), regress, randn(2, 5, 4), randn(2, 5, 6))
train("gru_both_ways", First(nn.GRU(4, 6, bidirectional=True)), regress, randn(5, 2, 4), randn(5, 2, 12))
train("encoder_layer", nn.TransformerEncoderLayer(16, 4, 32, dropout=0, batch_first=True, norm_first=True),
      regress, randn(2, 5, 16), randn(2, 5, 16), tolerance=1e-4)
train("embedding_bag", nn.EmbeddingBag(20, 8, mode="sum"), regress, torch.randint(0, 20, (5, 4)), randn(5, 8))

x = torch.cat([randn(40) * 3, torch.rand(10), torch.tensor([0.0, -0.0, 1.0, -1.0, 1e-30, 20.0, -20.0])])
for name in "digamma lgamma erfinv i0 log2 expm1 sinc logit".split():
    case("unary_" + name, getattr(torch, name), x)
i = torch.randint(-100, 100, (60,))
j = torch.randint(1, 20, (60,)) * (torch.randint(0, 2, (60,)) * 2 - 1)
for name in "gcd fmod remainder floor_divide".split():
    case("integer_" + name, getattr(torch, name), i, j)

a = randn(6, 8)
for name, function in {
    "topk": lambda x: torch.topk(x, 3),
    "sort": lambda x: torch.sort(x, 1),
    "logcumsumexp": lambda x: torch.logcumsumexp(x, 1),
    "var_mean": lambda x: torch.var_mean(x, (0, 1)),
    "scatter_amax": lambda x: x.scatter_reduce(1, (x.abs() * 2).long().clamp(0, 7), x, "amax"),
    "index_put": lambda x: x.index_put((x[:, 0].abs().long(),), x[0], accumulate=True),
    "searchsorted": lambda x: torch.searchsorted(torch.sort(x, 1)[0], x),
    "cdist": lambda x: torch.cdist(x, x[:3]),
    "complex_product": lambda x: torch.view_as_real(torch.complex(x, x.flip(0)) @ torch.complex(x, x).T),
    "half_product": lambda x: (x.half() @ x.half().T).float(),
    "unfold": lambda x: x.unfold(1, 3, 2),
    "pad_reflect": lambda x: F.pad(x[None], (2, 3), "reflect"),
}.items():
    case(name, function, a)

image = randn(1, 2, 7, 9)
for name, function in {
    "bicubic": lambda x: F.interpolate(x, size=(14, 18), mode="bicubic"),
    "bilinear": lambda x: F.interpolate(x, size=(11, 5), mode="bilinear", align_corners=True),
    "grid_sample": lambda x: F.grid_sample(x, torch.tanh(x.permute(0, 2, 3, 1))),
    "fold": lambda x: F.fold(F.unfold(x, 3), (7, 9), 3),
    "avg_pool_ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "causal_attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
}.items():
    with_gradient(name, function, image)

s = a[:, :6] @ a[:, :6].T + 6 * torch.eye(6)
for name in "inv eigvalsh slogdet svdvals cholesky".split():
    case("linalg_" + name, getattr(torch.linalg, name), s)
