"""Terms of the local objective."""

from dataclasses import dataclass

from fedcore.base.lazy import Tensor, functional, torch
from fedcore.engines import Batch, BoundTerm, Job, Upload
from fedcore.engines.forward import features
from fedcore.parts import Plan, Run, State, Term, Work
from fedcore.parts.discrepancy import Discrepancy, squared
from fedcore.parts.exchange import draw_mixture

RANK_TOLERANCE = 1e-10
SMALLEST = 1e-8
ANCHORS = 2  # MOON: the model received, and the client's previous one


@dataclass(frozen=True)
class Proximal(Term):
    """(mu/2) ||w - w_received||^2, or without the 1/2. FedProx, eq. (2).

    Not ``squared``, it is mu ||w - w_received|| (with gradient 0 where the two are equal), as in the code of
    DL-opt and FedOMW.
    """

    mu: float
    half: bool = True
    squared: bool = True
    label: str = "proximal"

    def work(self, validation: float) -> Work:
        """A pull in each step."""
        return Work(vectors=2 if self.mu else 0)

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        if self.squared or not self.mu:
            return _pull(job, job.received, self.mu if self.half else 2 * self.mu)

        def add_direction(out: Tensor, w: Tensor) -> None:
            away = w - job.received
            if norm := float(away.norm()):
                out.add_(away, alpha=self.mu / norm)

        return BoundTerm(add_gradient=add_direction)


def _pull(job: Job, target: Tensor, weight: float) -> BoundTerm:
    """Return (weight/2) ||w - target||^2."""

    def add_gradient(out: Tensor, w: Tensor) -> None:
        out.add_(w, alpha=weight).sub_(target, alpha=weight)

    pull = weight if target is job.received else 0.0
    return BoundTerm(add_gradient=add_gradient if weight else None, pull=pull)


@dataclass(frozen=True)
class WeightNorm(Term):
    """gamma ||w||, the plain Euclidean norm with gradient 0 at w = 0. DL-opt and FedOMW, eq. (6).

    ``w`` are the weights, all arrays of at least two dimensions taken as one vector; with ``bias`` all
    parameters. ``squared`` takes (gamma/2) ||w||^2 instead.
    """

    gamma: float
    squared: bool = False
    bias: bool = False
    label: str = "weight norm"

    def work(self, validation: float) -> Work:
        """A norm and its gradient in each step."""
        return Work(vectors=2 if self.gamma else 0)

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        """Bind to the model's weights; without any matrix, to all parameters."""
        if not self.gamma:
            return BoundTerm()
        layout = run.problem.model.trainable
        matrices = [name for name, shape in layout.shapes.items() if len(shape) > 1 and not self.bias]

        def weights(flat: Tensor) -> list[Tensor]:
            views = layout.views(flat) if matrices else {}
            return [views[name] for name in matrices] or [flat]

        def add_gradient(out: Tensor, w: Tensor) -> None:
            held = weights(w)
            scale = 1.0 if self.squared else 1 / _norm(held)
            for place, weight in zip(weights(out), held, strict=True):
                place.add_(weight * scale, alpha=self.gamma)

        return BoundTerm(add_gradient=add_gradient)


@dataclass(frozen=True)
class TraceNorm(Term):
    """alpha ||W||_*, the sum of the singular values of the output layer's weight. FedAvgR, Algorithm 1.

    Its (sub)gradient is U_r V_r^T over the singular values above 1e-10 times the largest; 0 at W = 0.
    """

    alpha: float
    label: str = "trace norm"

    def work(self, validation: float) -> Work:
        """A decomposition in each step."""
        return Work(decompositions=1 if self.alpha else 0)

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        layout, head = run.problem.model.trainable, run.problem.model.head

        def add_gradient(out: Tensor, w: Tensor) -> None:
            weight = layout.views(w)[head].reshape(layout.shapes[head][0], -1)
            if torch.isfinite(weight).all():
                u, s, v = torch.linalg.svd(weight, full_matrices=False)
                kept = (s > RANK_TOLERANCE * s[0]).to(s.dtype)
                layout.views(out)[head].add_(((u * kept) @ v).reshape(layout.shapes[head]), alpha=self.alpha)

        return BoundTerm(add_gradient=add_gradient if self.alpha and head in layout.shapes else None)


@dataclass(frozen=True)
class FeatureNorm(Term):
    """beta ||phi(X)||_F over the rows X of the client's batch. FedAvgR, Algorithm 1."""

    beta: float
    label: str = "feature norm"

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        """Return the term; it is the same for every client."""
        if not self.beta:
            return BoundTerm()

        def loss(phi: Tensor, batch: Batch) -> Tensor:
            return _norm([phi[batch.weights > 0]]) * self.beta

        def gradient(phi: Tensor, batch: Batch) -> Tensor:
            present = phi * (batch.weights > 0)[:, None]
            return present * (self.beta / _norm([present]))

        return BoundTerm(feature_loss=loss, feature_gradient=gradient)


def _norm(parts: list[Tensor]) -> Tensor:
    """Return the norm of all parts together, never below the smallest normal number."""
    square = torch.stack([part.square().sum() for part in parts]).sum()
    return square.clamp(min=torch.finfo(square.dtype).tiny).sqrt()


@dataclass(frozen=True)
class MmdToOthers(Term):
    """lam times the squared distance of client k's mean feature to the others' mean features.

    ``pairwise``: 1/(N-1) sum_{j != k} ||delta_k - delta_j||^2 (rFedAvg, eq. 5); else ||delta_k - mean_{j
    != k} delta_j||^2 (rFedAvg+, Section IV-C). Both have the gradient 2 (delta_k - mean_{j != k} delta_j)
    in delta_k. delta_k is the batch's mean feature under the model being trained; the others are held
    fixed. The others are all N clients or, where the exchange shares no more, those of the round's cohort.
    ``include_self`` counts client k among them. ``summed`` multiplies by the number of the others: a sum in
    place of the mean.
    """

    lam: float
    pairwise: bool
    include_self: bool = False
    summed: bool = False
    label: str = "MMD"

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        """Bind to the mean of the other clients' features; to nothing where there is no other."""
        delta, shared = state.server["delta"], state.values["sharing"]
        if self.lam == 0 or len(shared) < 2:
            return BoundTerm()
        others = delta[[client for client in shared if self.include_self or client != job.client]]
        target = others.mean(dim=0)
        spread = (others - target).square().sum(dim=1).mean() if self.pairwise else target.new_zeros(())
        lam = self.lam * len(others) if self.summed else self.lam

        def gradient(phi: Tensor, batch: Batch) -> Tensor:
            return batch.weights[:, None] * (batch.weights @ phi - target) * (2 * lam)

        given = (target.new_tensor(lam), target, spread)
        return BoundTerm(feature_loss=_distance, given=given, feature_gradient=gradient)


def _distance(phi: Tensor, batch: Batch, lam: Tensor, target: Tensor, spread: Tensor) -> Tensor:
    """Return lam times the squared distance of a batch's mean feature to a target [features], plus spread."""
    return lam * ((batch.weights @ phi - target).square().sum() + spread)


@dataclass(frozen=True)
class MmdToMixture(Term):
    """gamma MMD[rho_k, rho], rho the mixture of all clients' feature densities (client k's included).

    The batch's features stand for rho_k, ``samples`` points drawn once a round for rho. ``mean``: the norm
    of the difference of means (linear kernel); ``kernel``: Gaussian kernel, its bandwidth the median
    distance of the pooled points, taken as a constant. ``squared`` squares either. FedAvgR, Algorithm 1.
    """

    gamma: float
    samples: int
    mmd: Discrepancy
    squared: bool = False
    label: str = "MMD"

    def work(self, validation: float) -> Work:
        """With a kernel, distances of points in each step."""
        return Work(points=self.samples if self.gamma and self.mmd == "kernel" else 0)

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        drawn = draw_mixture(state, self.samples, run.streams.get("mixture", state.round, job.client))
        tiny = torch.finfo(drawn.dtype).tiny

        def loss(phi: Tensor, batch: Batch) -> Tensor:
            value, _ = squared(self.mmd, phi, drawn, batch.weights)
            return (value if self.squared else value.clamp(min=tiny).sqrt()) * self.gamma

        def gradient(phi: Tensor, batch: Batch) -> Tensor:
            value, steepest = squared(self.mmd, phi, drawn, batch.weights)
            scale = 1.0 if self.squared else 0.5 / value.clamp(min=tiny).sqrt()
            return steepest * (self.gamma * scale)

        return BoundTerm(feature_loss=loss, feature_gradient=gradient)


@dataclass(frozen=True)
class DriftPenalty(Term):
    """(alpha/2) ||h_k + w_k - w||^2, with h_k the client's drift: the sum of all its changes so far.

    h_k starts at zero, and h_k <- h_k + Delta_k after each of the client's rounds. Gao et al. (FedDC),
    Algorithm 1.
    """

    alpha: float
    label: str = "drift penalty"
    costs = Work(vectors=2, held=1)  # a pull in each step, and a drift per client

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        drift = state.clients["drift"].get(job.client)
        return _pull(job, job.received if drift is None else job.received - drift, self.alpha)

    def uploaded(self, run: Run, state: State, job: Job, upload: Upload) -> None:
        drift = state.clients["drift"].get(job.client)
        upload.extras["drift"] = upload.change if drift is None else drift + upload.change

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        for upload in uploads:
            state.clients["drift"][upload.client] = upload.extras["drift"]


@dataclass(frozen=True)
class Contrastive(Term):
    """mu times the batch mean of -log(e^(s_g/T) / (e^(s_g/T) + e^(s_p/T))), T the temperature.

    s_g and s_p are cosine similarities of a sample's features under the model being trained to those under
    the model received and under the client's own model of its last round. A client that takes part for the
    first time has no previous model other than the one received: the term is then constant. Li et al. (MOON),
    Section 3.3.
    """

    mu: float
    temperature: float
    label: str = "contrastive"
    family = "contrastive loss"

    def work(self, validation: float) -> Work:
        """Features of each batch under two further models, one of which the client keeps."""
        return Work(batch=ANCHORS if self.mu else 0, held=1)

    def bind(self, run: Run, state: State, job: Job) -> BoundTerm:
        previous = state.clients["previous"].get(job.client)
        if not self.mu or previous is None:
            return BoundTerm()

        def directions(batch: Batch) -> tuple[Tensor, Tensor]:
            near = features(run.problem, job.received, batch.x)
            return _unit(near), _unit(features(run.problem, previous, batch.x))

        def margin(unit: Tensor, near: Tensor, far: Tensor) -> Tensor:
            return (unit * (far - near)).sum(dim=1) / self.temperature

        def loss(phi: Tensor, batch: Batch) -> Tensor:
            return self.mu * (batch.weights @ functional.softplus(margin(_unit(phi), *directions(batch))))

        def gradient(phi: Tensor, batch: Batch) -> Tensor:
            near, far = directions(batch)
            length = phi.norm(dim=1, keepdim=True).clamp_min(SMALLEST)
            unit = phi / length
            pull = far - near
            across = pull - unit * (unit * pull).sum(dim=1, keepdim=True)
            weight = margin(unit, near, far).sigmoid() * batch.weights * (self.mu / self.temperature)
            return weight[:, None] * across / length  # type: ignore[no-any-return]

        return BoundTerm(feature_loss=loss, feature_gradient=gradient, passes=ANCHORS)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        for upload in uploads:
            state.clients["previous"][upload.client] = upload.model


def _unit(phi: Tensor) -> Tensor:
    """Scale each row [batch, features] to length one; rows of zeros stay zero."""
    return phi / phi.norm(dim=1, keepdim=True).clamp_min(SMALLEST)  # type: ignore[no-any-return]
