"""Hand-derived gradient of the CNN, laid out channels last."""

from fedcore.base.lazy import Tensor, torch
from fedcore.engines import Batch, Gradient
from fedcore.engines.dense import Scratch, Terms
from fedcore.models import Parameters
from fedcore.models.cnn import Cnn

LAYERS = ("conv1", "conv2")
POOL, PADDING, ONE = [2, 2], [2, 2], [1, 1]


def network(model: Cnn, p: Parameters, out: Parameters, terms: Terms, scratch: Scratch) -> Gradient:
    """Return the CNN's gradient: out <- keep out + scale gradient, written after the backward pass."""
    last = torch.channels_last
    dense = p["fc1.weight"], p["fc2.weight"]

    def gradient(x: Tensor, y: Tensor, keep: float = 0.0, scale: float = 1.0) -> None:
        size = len(y)
        kernels = [p[f"{name}.weight"].to(memory_format=last) for name in LAYERS]
        images = [x.to(memory_format=last)]
        pooled = []
        for name, kernel in zip(LAYERS, kernels, strict=True):
            sums = torch.conv2d(images[-1], kernel, p[f"{name}.bias"], padding=2)
            maxima, where = torch.ops.aten.max_pool2d_with_indices(sums, POOL)
            pooled.append((sums, where))
            images.append(maxima.relu_())
        flat = images[-1].flatten(1)
        phi = torch.addmm(p["fc1.bias"], flat, dense[0].T).relu_()
        scores = torch.addmm(p["fc2.bias"], phi, dense[1].T)

        top = torch.softmax(scores, 1)
        top.scatter_add_(1, y[:, None], top.new_full((size, 1), -1.0))
        middle = top @ dense[1]
        for term in terms:
            middle.add_(term(phi, Batch(x, phi.new_full((size,), 1 / size))), alpha=size)
        middle = torch.ops.aten.threshold_backward(middle, phi, 0)
        delta = (middle @ dense[0]).view_as(images[-1]).contiguous(memory_format=last)
        gradients = []
        for i in (1, 0):
            sums, where = pooled[i]
            delta = torch.ops.aten.threshold_backward(delta, images[i + 1], 0)
            delta = torch.ops.aten.max_pool2d_with_indices_backward(
                delta, sums, POOL, POOL, [0, 0], ONE, False, where
            )
            wanted = [i > 0, True, True]
            delta, kernel, bias = torch.ops.aten.convolution_backward(
                delta, images[i], kernels[i], [sums.shape[1]], ONE, PADDING, ONE, False, [0, 0], 1, wanted
            )
            gradients.append((LAYERS[i], kernel, bias))

        alpha = scale / size
        for name, kernel, bias in gradients:
            _accumulate(out[f"{name}.weight"], kernel, keep, alpha)
            _accumulate(out[f"{name}.bias"], bias, keep, alpha)
        for name, delta, rows in (("fc1", middle, flat), ("fc2", top, phi)):
            out[f"{name}.weight"].addmm_(delta.T, rows, beta=keep, alpha=alpha)
            _accumulate(out[f"{name}.bias"], delta.sum(0), keep, alpha)

    return gradient


def _accumulate(out: Tensor, value: Tensor, keep: float, scale: float) -> None:
    """Set out <- keep out + scale value; what ``out`` held does not count if ``keep`` is 0."""
    if keep:
        out.mul_(keep).add_(value, alpha=scale)
    else:
        out.copy_(value).mul_(scale)
