"""What every training run here uses: Muon together with AdamW, averaged gradients, checkpoints, processes."""
import math
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def orthogonalise(g, steps=5):
    """Newton-Schulz on a stack of matrices [n, rows, columns], float32."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.shape[1] > g.shape[2]
    x = g.transpose(1, 2) if tall else g
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.transpose(1, 2)
        x = a * x + (b * s + c * s @ s) @ x
    return x.transpose(1, 2) if tall else x


class Muon:
    """Momentum orthogonalised; every process works on its part of each stack of equal shapes."""

    def __init__(self, parameters, rank, world, momentum=0.95):
        shapes = {}
        for p in parameters:
            shapes.setdefault(tuple(p.shape), []).append(p)
        self.stacks = list(shapes.values())
        self.buffers = [torch.zeros(len(s), *s[0].shape) for s in self.stacks]
        self.rank, self.world, self.momentum = rank, world, momentum

    @torch.no_grad()
    def step(self, lr):
        updates = []
        for stack, buffer in zip(self.stacks, self.buffers):
            gradient = torch.stack([p.grad for p in stack])
            buffer.mul_(self.momentum).add_(gradient)
            gradient.add_(buffer, alpha=self.momentum)
            update, n = torch.zeros_like(gradient), len(stack)
            part = slice(n * self.rank // self.world, n * (self.rank + 1) // self.world)
            update[part] = orthogonalise(gradient[part])
            updates.append(update)
        flat = torch.cat([u.flatten() for u in updates])
        if self.world > 1:
            dist.all_reduce(flat)
        for stack, update in zip(self.stacks, flat.split([u.numel() for u in updates])):
            scale = lr * 0.2 * max(stack[0].shape) ** 0.5
            for p, u in zip(stack, update.view(len(stack), *stack[0].shape)):
                p.add_(u, alpha=-scale)


def average_gradients(parameters, world):
    flat = torch.cat([p.grad.flatten() for p in parameters])
    if world > 1:
        dist.all_reduce(flat)
        flat /= world
    flat *= min(1.0, 1.0 / (flat.norm().item() + 1e-6))
    for p, g in zip(parameters, flat.split([p.numel() for p in parameters])):
        p.grad.copy_(g.view_as(p))


class Optimiser:
    """Muon for matrices, AdamW for embeddings and norms; gradients are averaged over the processes and clipped to 1."""

    def __init__(self, model, rank, world, muon_lr, adam_lr):
        named = list(model.named_parameters())
        self.matrices = [p for n, p in named if p.dim() == 2 and "embed" not in n]
        self.others = [p for n, p in named if not (p.dim() == 2 and "embed" not in n)]
        self.muon = Muon(self.matrices, rank, world)
        self.adam = torch.optim.AdamW(self.others, adam_lr, betas=(0.9, 0.95), weight_decay=0.0)
        self.world, self.muon_lr, self.adam_lr = world, muon_lr, adam_lr

    def step(self, loss, rate):
        """One update at `rate` times the peak learning rates."""
        self.adam.zero_grad()
        for p in self.matrices:
            p.grad = None
        loss.backward()
        average_gradients(self.matrices + self.others, self.world)
        self.muon.step(self.muon_lr * rate)
        for group in self.adam.param_groups:
            group["lr"] = self.adam_lr * rate
        self.adam.step()

    def state(self):
        return {"muon": self.muon.buffers, "adam": self.adam.state_dict()}

    def load(self, saved):
        self.muon.buffers = saved["muon"]
        self.adam.load_state_dict(saved["adam"])


class Smooth:
    def __init__(self, value, rate):
        self.value, self.rate = value, rate

    def add(self, x):
        if not math.isnan(x):
            self.value += self.rate * (x - self.value)


def read_checkpoint(folder, model, optimiser):
    """The run's state after its weights and the optimiser's are taken over; None where there is no checkpoint."""
    if not (folder / "checkpoint.pt").exists():
        return None
    saved = torch.load(folder / "checkpoint.pt", weights_only=False)
    model.load_state_dict(saved["model"])
    optimiser.load(saved)
    return saved["state"]


def write_checkpoint(folder, model, optimiser, state):
    """Replaces the checkpoint whole: a kill leaves the last one."""
    saved = {"model": model.state_dict(), "config": model.config, "state": state, **optimiser.state()}
    torch.save(saved, folder / "checkpoint.tmp")
    os.replace(folder / "checkpoint.tmp", folder / "checkpoint.pt")


def run_processes(train, args, processes):
    """Starts train(rank, world, args) in one-thread processes that meet on args.port."""
    # keep freed memory: page faults on fresh mappings cost more than the arithmetic
    os.environ.update(MALLOC_MMAP_THRESHOLD_="4294967296", MALLOC_TRIM_THRESHOLD_="8589934592", OMP_NUM_THREADS="1")
    if processes > 1:
        mp.spawn(joined, (train, processes, args), nprocs=processes)
    else:
        joined(0, train, 1, args)


def joined(rank, train, world, args):
    torch.set_num_threads(1)
    if world > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port))
        dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(args.seed)
    train(rank, world, args)
    if world > 1:
        dist.destroy_process_group()
