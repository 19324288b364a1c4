"""The networks of --model as PyTorch modules, with their parity weights and samples. The C++ side generates the same
values.

Names are those of state_dict. "Float tensors" are the entries of state_dict except num_batches_tracked, in its order; a
batch norm has weight, bias, running_mean, running_var. u is a number in [-1, 1) from the hash of lenet.py (SplitMix64):

    u(t, e) = 2 * (hash(t << 32 | e) >> 11) * 2**-53 - 1      in double, exact

Parity weights. Tensor t is the t-th float tensor (from 0, including running_mean and running_var); e is the position of
an element in PyTorch's own layout (O,I,H,W; rows of a linear layer). Computed in double and rounded to float32 once, at
the end:

    convolution and linear, weight and bias   u(t, e) / sqrt(fan_in); a tied weight is that of its embedding
    embedding                                 u(t, e) / sqrt(rows)
    norms, weight                             1 + 0.25 * u(t, e); 1 in keras-convnet, whose norms have no scale
    norms, bias                               0.25 * u(t, e)
    running_mean, running_var                 0, 1
    layer_scale                               1 + 0.25 * u(t, e)
    class_token, pos_embedding, wpe           u(t, e)

fan_in is I*H*W of a convolution's weight, the number of columns of a linear layer's weight, and of rows of a Conv1D's; a bias has the fan_in of
its layer. In vgg16, which has no norms, the first line is sqrt(6) times as large. (lenet has its own figures and weights: lenet.py has the same rule, but with 180 in the layer whose fan_in is
500.)
Open weights differ in the norms' biases, which are 8 larger (float32(8 + 0.25 * u)): no ReLU behind a norm
closes.

A network with frozen parts has running_mean = 0.1 * u(t, e) and running_var = 1 + 0.25 * u(t, e).

Parity samples. Sample j of the stream is number (j * 7919) mod 60000 of a dataset; with batches of B, global batch k
has the samples k * B ... k * B + B - 1 of the stream. The dataset is Fashion-MNIST's training set for images of
28 x 28 x 1, else 60000 images of noise: pixel e of image i (e in the order H,W,C) is hash((2**20 + i) << 32 | e) >> 56, and its
label is i mod 10. The network's input is pixels/255, without further normalization. For a network that reads tokens, token e
of window i is hash((2**20 + i) << 32 | e) mod the size of the vocabulary.
"""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from lenet import DATA_PATH, element_hashes, lenet, read_split

DATASET_SIZE = 60000


class KerasBatchNorm2d(nn.BatchNorm2d):
    """Keras's BatchNormalization(scale=False): the weight stays 1; the running average is of the biased variance."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-3, momentum=0.01)
        self.weight.requires_grad = False

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            variance, mean = torch.var_mean(x, (0, 2, 3), correction=0)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance, self.momentum)
            self.num_batches_tracked += 1
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


class Residual(nn.Module):
    """A residual block with D2L's names: 3x3, norm, ReLU, 3x3, norm; plus the input, through conv3 if there is one;
    ReLU."""

    def __init__(self, in_channels, out_channels, stride=1, use_conv3=False):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.conv3 = nn.Conv2d(in_channels, out_channels, 1, stride) if use_conv3 else None
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU()

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (self.conv3(x) if self.conv3 else x))


def resnet18(in_channels=1):
    """The ResNet-18 of D2L's chapter on multiple GPUs: a 3x3 stem without pooling, convolutions with biases."""
    net = nn.Sequential(nn.Conv2d(in_channels, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())
    net.add_module("resnet_block1", nn.Sequential(Residual(64, 64), Residual(64, 64)))
    for number, channels in (2, 128), (3, 256), (4, 512):
        first = Residual(channels // 2, channels, stride=2, use_conv3=True)
        net.add_module(f"resnet_block{number}", nn.Sequential(first, Residual(channels, channels)))
    net.add_module("global_avg_pool", nn.AdaptiveAvgPool2d(1))
    net.add_module("fc", nn.Sequential(nn.Flatten(), nn.Linear(512, 10)))
    return net


def mlp(inputs=784):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 10))


def keras_convnet(norm=KerasBatchNorm2d, dropout=0.5, in_channels=1):
    """The convnet of Keras's guide to distributed training. Its strided 'same' convolution pads symmetrically on
    28 x 28 and 32 x 32."""
    return nn.Sequential(
        nn.Conv2d(in_channels, 12, 3, padding=1, bias=False), norm(12), nn.ReLU(),
        nn.Conv2d(12, 24, 6, stride=2, bias=False), norm(24), nn.ReLU(),
        nn.Conv2d(24, 32, 6, stride=2, padding=2), norm(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 256), nn.ReLU(), nn.Dropout(dropout), nn.Linear(256, 10))


def torchvision_network(name, size=224, classes=10, in_channels=3):
    """A network of torchvision. `size` is the height and width of a transformer's images."""
    import torchvision  # optional: the other networks do not need it
    if name == "vit-tiny":
        net = torchvision.models.VisionTransformer(image_size=size, patch_size=4, num_layers=12, num_heads=3, hidden_dim=192,
                                                   mlp_dim=768, num_classes=classes)
    else:
        sized = {"image_size": size} if name.startswith("vit") else {}
        net = getattr(torchvision.models, name)(num_classes=classes, **sized)
    if in_channels != 3:
        path, conv = next((n, m) for n, m in net.named_modules() if isinstance(m, nn.Conv2d))
        parent, _, last = path.rpartition(".")
        setattr(net.get_submodule(parent), last, nn.Conv2d(in_channels, conv.out_channels, conv.kernel_size, conv.stride,
                                                           conv.padding, bias=conv.bias is not None))
    return net


def gpt2(layers, heads, channels, positions, vocabulary, dropout=0.0):
    """transformers' GPT2LMHeadModel. Its output is the logits, N x T x vocabulary."""
    from transformers import GPT2Config, GPT2LMHeadModel  # optional

    class GPT2(GPT2LMHeadModel):
        def forward(self, tokens):
            return super().forward(input_ids=tokens, use_cache=False).logits

    return GPT2(GPT2Config(n_layer=layers, n_head=heads, n_embd=channels, n_positions=positions, vocab_size=vocabulary,
                           resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout, attn_implementation="sdpa",
                           bos_token_id=None, eos_token_id=None))


GPT2 = {  # layers, heads, channels, positions; networks of --model, and gpt.toml in expected/networks
    "gpt2-124m": (12, 12, 768, 1024),
    "gpt-tiny": (6, 6, 384, 256),
    "gpt.toml": (2, 2, 32, 48),
}
GPT_VOCABULARY = 100  # of gpt.toml
TORCHVISION = ("mobilenet_v3_small", "efficientnet_b0", "vgg16", "densenet121", "convnext_tiny", "vit_b_16", "vit-tiny")
GAINS = {"vgg16": 6 ** 0.5}  # of the parity weights
NETWORKS = {
    "lenet": lambda in_channels=1: lenet(),
    "mlp": lambda in_channels=1: mlp(),
    "resnet18": resnet18,
    "keras-convnet": lambda in_channels=1: keras_convnet(in_channels=in_channels),
    "torchvision-resnet18": lambda in_channels=1: torchvision_network("resnet18", in_channels=in_channels),
    "torchvision-resnet50": lambda in_channels=1: torchvision_network("resnet50", in_channels=in_channels),
    **{name: lambda in_channels=1, name=name: torchvision_network(name, 28, in_channels=in_channels)
       for name in ("mobilenet_v3_small", "efficientnet_b0", "convnext_tiny", "vit-tiny")},
}


def network_for(name, image):
    """For images of a shape H, W, C; of gpt.toml, for any number of tokens."""
    if name == "gpt.toml":
        return gpt2(*GPT2[name], GPT_VOCABULARY)
    return torchvision_network(name, image[0]) if name in TORCHVISION else NETWORKS[name](image[2])


def float_tensors(model):
    """The float tensors by name, in order; references, not copies."""
    return {name: tensor for name, tensor in model.state_dict().items() if tensor.is_floating_point()}


def units(tensor_index, count):
    return 2 * ((element_hashes(tensor_index, count) >> np.uint64(11)) * 2.0**-53) - 1


def freeze(model, prefixes):
    """As --freeze: parameters at and below the prefixes are constant; norms without trained parameters stay in eval()."""
    def is_below(name):
        return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)

    for name, parameter in model.named_parameters():
        parameter.requires_grad = not is_below(name)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d) and not any(p.requires_grad for p in module.parameters()):
            module.eval()
            module.train = lambda mode=True, norm=module: norm
    return model


def set_parity_weights(model, shift=0.0, statistics=False, gain=1.0):
    """Sets the parity weights, or with a shift of 8 the open weights; with `statistics` those of frozen parts."""
    modules = dict(model.named_modules())
    for t, (name, tensor) in enumerate(float_tensors(model).items()):
        path, _, kind = name.rpartition(".")
        layer, u = modules[path], units(t, tensor.numel())
        if path == "lm_head":  # tied
            continue
        if isinstance(layer, (nn.BatchNorm2d, nn.LayerNorm)):
            scale = 0 if isinstance(layer, KerasBatchNorm2d) else 0.25
            values = {"weight": 1 + scale * u, "bias": shift + 0.25 * u,
                      "running_mean": 0.1 * statistics * u, "running_var": 0.25 * statistics * u + 1}[kind]
        elif kind == "layer_scale":
            values = 1 + 0.25 * u
        elif kind in ("class_token", "pos_embedding") or path.endswith("wpe"):
            values = u
        elif isinstance(layer, nn.Embedding) or type(layer).__name__ == "Conv1D":
            values = gain * u / np.sqrt(len(layer.weight))
        else:
            weight = layer.in_proj_weight if kind.startswith("in_proj") else layer.weight
            values = gain * u / np.sqrt(weight[0].numel())
        tensor.copy_(torch.from_numpy(values.astype(np.float32)).reshape(tensor.shape))
    return model


class FashionMnist:
    """The training set as float32 (n,1,28,28) images in [0,1] and labels."""

    def __init__(self, folder=DATA_PATH):
        self.images, self.labels = read_split("train", folder)

    def samples(self, numbers):
        return self.images[numbers], self.labels[numbers]


class Noise:
    def __init__(self, height, width, channels):
        self.shape = height, width, channels

    def samples(self, numbers):
        pixels = [(element_hashes(2**20 + i, int(np.prod(self.shape))) >> np.uint64(56)).reshape(self.shape)
                  for i in map(int, numbers)]
        images = torch.from_numpy(np.stack(pixels).astype(np.float32)).permute(0, 3, 1, 2) / 255
        return images.contiguous(), numbers % 10


class Tokens:
    def __init__(self, length, vocabulary):
        self.length, self.vocabulary = length, vocabulary

    def samples(self, numbers):
        windows = [element_hashes(2**20 + i, self.length + 1) % np.uint64(self.vocabulary) for i in map(int, numbers)]
        windows = torch.from_numpy(np.stack(windows).astype(np.int64))
        return windows[:, :-1], windows[:, 1:]


def parity_numbers(k, batch):
    """The sample numbers of global batch k."""
    return torch.from_numpy(np.arange(k * batch, (k + 1) * batch) * 7919 % DATASET_SIZE)
