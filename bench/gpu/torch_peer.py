"""PyTorch on the same device: what it copies and multiplies, and a Llama-shaped decoder of random weights with scaled_dot_product_attention over its whole cache.

Takes one JSON object: {"device"?, "limits"?: true, "tiny"?, "shape"?: sizes, "lengths", "tokens", "seconds"}; prints one JSON object a line. Weights and cache are f16 (f32 on a CPU).
"""
import json
import sys
import time

import torch
import torch.nn.functional as F

job = json.loads(sys.argv[1])
device = job.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
cuda, tiny = device == "cuda", job.get("tiny", False)
dtype = torch.float16 if cuda else torch.float32
torch.manual_seed(1)
torch.set_grad_enabled(False)
say = lambda **what: print(json.dumps({"torch": torch.__version__, "on": torch.cuda.get_device_name() if cuda else "cpu", **what}), flush=True)


def done():
    if cuda:
        torch.cuda.synchronize()


def seconds_of(run, least=0.02 if tiny else 0.3, turns=3 if tiny else 5):
    """Median seconds of a call, repeated until `least` seconds pass."""
    def timed(times):
        done()
        started = time.perf_counter()
        for _ in range(times):
            run()
        done()
        return time.perf_counter() - started
    timed(1)
    times, took = 1, timed(1)
    while took < least and times < 2**16:
        times = min(2**16, int(times * min(16, max(2, 1.2 * least / max(took, 1e-9)))) + 1)
        took = timed(times)
    return sorted(timed(times) / times for _ in range(turns))[turns // 2]


def limits():
    count = 2**18 if tiny else 2**28
    a, b = torch.randn(count, device=device), torch.empty(count, device=device)
    say(peer="copy", GBs=2 * 4 * count / seconds_of(lambda: b.copy_(a)) / 1e9)
    del a, b
    shapes = [(1, 256, 256), (64, 256, 256)] if tiny else [(1, 4096, 4096), (1, 28672, 4096), (1, 4096, 14336), (512, 4096, 4096), (512, 28672, 4096), (2048, 4096, 14336)]
    kinds = [("f32", torch.float32, False), ("tf32", torch.float32, True), ("f16", torch.float16, False), ("bf16", torch.bfloat16, False)] if cuda else [("f32", torch.float32, False)]
    for name, kind, tf32 in kinds:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        for m, outputs, inputs in shapes:
            size = outputs * inputs * torch.empty(0, dtype=kind).element_size()
            weights = [torch.randn(outputs, inputs, device=device, dtype=torch.float32).to(kind) for _ in range(1 if m > 1 or tiny else min(32, -(-(2**29) // size)))]
            x, at = torch.randn(m, inputs, device=device, dtype=torch.float32).to(kind), [0]
            def product():
                at[0] += 1
                return F.linear(x, weights[at[0] % len(weights)])
            seconds = seconds_of(product)
            say(peer="product", kind=name, m=m, outputs=outputs, inputs=inputs, **({"GBs": size / seconds / 1e9} if m == 1 else {"TFLOPs": 2 * m * outputs * inputs / seconds / 1e12}))
            del weights
    torch.backends.cuda.matmul.allow_tf32 = False


def norm(x, gain, eps=1e-5):
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * gain


def turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Decoder:
    def __init__(self, shape, longest):
        self.shape, d = shape, shape["d"]
        weight = lambda o, i: torch.empty(o, i, device=device, dtype=dtype).normal_(0, 0.02)
        self.layers = [[weight(o, i) for o, i in shape["products"]] for _ in range(shape["layers"])]
        self.words = weight(shape["vocab"], shape["D"])
        self.head = self.words if shape["tied"] else weight(shape["vocab"], shape["D"])
        self.gain = torch.ones(shape["D"], device=device, dtype=dtype)
        self.cache = torch.zeros(shape["layers"], 2, 1, shape["G"], longest, d, device=device, dtype=dtype)
        angles = torch.outer(torch.arange(longest, device=device).float(), 1 / 500000 ** (torch.arange(0, d, 2, device=device).float() / d))
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def forward(self, ids, at, end):
        """A whole prompt at positions `at [m]`, or one token after it, over `end` slots: logits of the last."""
        s, m = self.shape, ids.shape[0]
        x, cos, sin = self.words[ids], self.cos[at], self.sin[at]
        for (qkv, output, gate_up, down), cache in zip(self.layers, self.cache):
            q, k, v = F.linear(norm(x, self.gain), qkv).view(1, m, -1, s["d"]).transpose(1, 2).split((s["H"], s["G"], s["G"]), 1)
            cache[0].index_copy_(2, at, turned(k, cos, sin))
            cache[1].index_copy_(2, at, v)
            y = F.scaled_dot_product_attention(turned(q, cos, sin), cache[0, :, :, :end], cache[1, :, :, :end], is_causal=m > 1, enable_gqa=True)
            x = x + F.linear(y.transpose(1, 2).reshape(m, -1), output)
            gate, up = F.linear(norm(x, self.gain), gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        return F.linear(norm(x[-1:], self.gain), self.head)


def model(shape, lengths, tokens, limit):
    """The whole prompt in one pass, then tokens after it, each at the last slot: launched one by one, and as a captured graph."""
    started, net = time.perf_counter(), Decoder(shape, max(lengths) + 1)
    for length in lengths:
        if time.perf_counter() - started > limit:
            say(peer="model", shape=shape["name"], length=length, skipped=f"stopped after {limit} s")
            break
        ids, at = torch.randint(shape["vocab"], (length,), device=device), torch.arange(length, device=device)
        point = {"prefillTokensPerSecond": length / seconds_of(lambda: net.forward(ids, at, length), 0.02, 3)}
        one, place = ids[:1].clone(), at[-1:] + 1
        def step():
            one.copy_(net.forward(one, place, length + 1).argmax(-1))
        def eager():
            for _ in range(tokens):
                step()
                one.item()
        point["decodeMs"] = 1000 * seconds_of(eager, 0.02, 3) / tokens
        if cuda:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            def replayed():
                for _ in range(tokens):
                    graph.replay()
                    one.item()
            point["decodeGraphMs"] = 1000 * seconds_of(replayed, 0.02, 3) / tokens
            del graph
        say(peer="model", shape=shape["name"], length=length, **point)


try:
    if job.get("limits"):
        limits()
    if job.get("shape"):
        model(job["shape"], job["lengths"], job["tokens"], job["seconds"])
except torch.OutOfMemoryError as error:
    say(peer="model", shape=job["shape"]["name"], skipped=str(error).split(".")[0])
