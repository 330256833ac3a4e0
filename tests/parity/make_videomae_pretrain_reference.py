"""Makes videomae_pretrain_first_step.safetensors and videomae_v2_pretrain_first_step.safetensors with PyTorch: loss and
every gradient of the first step of a small masked autoencoder of clips in fp64, on clips of random pixels.

The network is what WORKLOADS and the paper (Tong et al. 2022, VideoMAE) describe, with VideoMAE's names: an encoder of the
visible tokens, a decoder of these and of mask tokens, and as target the pixels of the hidden ones, unnormalised to [0, 1],
less their mean and over their standard deviation by tubelet and channel. Which places are hidden is drawn as
include/tutti/device/masking_ops.hpp says, by Philox4x32-10 (Salmon et al. 2011) written down here once more.

The second file is VideoMAE V2's (Wang et al. 2023): mask tokens are those of all tokens that a running cell keeps, visible
ones among them, and the loss is of the kept ones that the encoder did not see, over their number.

Needs torch. Run it only to renew the reference:
    python3 -B tests/parity/make_videomae_pretrain_reference.py
"""

import os

import torch

import make_videomae_reference as videomae
import make_vit_reference

SIDE, COLOURS, TUBELET, PATCH = 16, 3, 2, 4
FRAMES, V2_FRAMES = 4, 8
DIM, DEPTH, HEADS = 16, 2, 2
DECODER_DIM, DECODER_DEPTH, DECODER_HEADS = 8, 1, 1
RATIO = 0.75
SEED, EPOCH, POSITIONS = 5, 2, (7, 0, 3)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def philox(counter, key):
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = (second >> 32 ^ counter[1] ^ key[0], second & 0xFFFFFFFF, first >> 32 ^ counter[3] ^ key[1],
                   first & 0xFFFFFFFF)
        key = ((key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF)
    return counter


def mask_words(position, place):
    """Counter: the place in 48 bits, the position in 48, the epoch in 24 and the use, 4, in 8."""
    number = place | position << 48 | EPOCH << 96 | 4 << 120
    return philox(tuple(number >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)),
                  (SEED & 0xFFFFFFFF, SEED >> 32 & 0xFFFFFFFF))


def mask_key(position, place):
    words = mask_words(position, place)
    return words[0] << 32 | words[1]


def hidden_places(position):
    places = (SIDE // PATCH) ** 2
    order = sorted(range(places), key=lambda place: (mask_key(position, place), place))
    return set(order[: int(RATIO * places)])


def mask(frames):
    """[N, T], tokens as VideoMAE counts them, frames before rows before columns: True where hidden."""
    places = (SIDE // PATCH) ** 2
    rows = []
    for position in POSITIONS:
        hidden = hidden_places(position)
        rows.append([place in hidden for place in range(places)] * (frames // TUBELET))
    return torch.tensor(rows)


def kept(frames):
    """[N, T]: True where a running cell of two kept and two dropped tokens keeps one."""
    side, samples = SIDE // PATCH, []
    for position in POSITIONS:
        queue = [False, False, True, True]
        start, tokens = mask_words(position, side**2)[0] % 4, []
        for group in range(frames // TUBELET):
            cell = [queue[(i + start + group) % 4] for i in range(4)]
            tokens += [cell[2 * (row % 2) + column % 2] for row in range(side) for column in range(side)]
        samples.append(tokens)
    return torch.tensor(samples)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = videomae.PatchEmbed()
        self.blocks = torch.nn.Sequential(*[videomae.Block() for _ in range(DEPTH)])
        self.norm = torch.nn.LayerNorm(DIM, eps=1e-6)

    def forward(self, clips, hidden):
        x = self.patch_embed(clips)
        x = x + videomae.positions(x.shape[1])
        return self.norm(self.blocks(x[~hidden].reshape(len(x), -1, DIM)))


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.Sequential(
            *[videomae.Block(DECODER_DIM, DECODER_HEADS) for _ in range(DECODER_DEPTH)])
        self.norm = torch.nn.LayerNorm(DECODER_DIM, eps=1e-6)
        self.head = torch.nn.Linear(DECODER_DIM, COLOURS * TUBELET * PATCH**2)

    def forward(self, x, count):
        return self.head(self.norm(self.blocks(x)[:, -count:]))


class Autoencoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()
        self.encoder_to_decoder = torch.nn.Linear(DIM, DECODER_DIM, bias=False)
        self.mask_token = torch.nn.Parameter(torch.zeros(1, 1, DECODER_DIM))

    def forward(self, clips, hidden, said):
        x = self.encoder_to_decoder(self.encoder(clips, hidden))
        n, places = len(x), videomae.positions(hidden.shape[1], DECODER_DIM).expand(len(x), -1, -1)
        of_visible = places[~hidden].reshape(n, -1, DECODER_DIM)
        of_said = places[said].reshape(n, -1, DECODER_DIM)
        x = torch.cat([x + of_visible, self.mask_token + of_said], dim=1)
        return self.decoder(x, of_said.shape[1])


def targets(pixels, said):
    """pixels: [N, C, T, H, W] in [0, 1]. A token's values: frames before rows before columns before channels."""
    n, c, t, h, w = pixels.shape
    x = pixels.reshape(n, c, t // TUBELET, TUBELET, h // PATCH, PATCH, w // PATCH, PATCH)
    x = x.permute(0, 2, 4, 6, 3, 5, 7, 1).reshape(n, -1, TUBELET * PATCH**2, c)
    x = (x - x.mean(2, keepdim=True)) / (x.var(2, unbiased=True, keepdim=True).sqrt() + 1e-6)
    return x.reshape(n, x.shape[1], -1)[said].reshape(n, -1, TUBELET * PATCH**2 * c)


def write(name, frames, is_v2):
    torch.manual_seed(1)
    clips = torch.randint(0, 256, (len(POSITIONS), COLOURS, frames, SIDE, SIDE), dtype=torch.uint8)
    clips[0, 1] = 77  # a colour without variance
    clips[1, 2, :2] = 200 + clips[1, 2, :2] // 128  # and one with next to none
    samples = clips.permute(0, 3, 4, 2, 1).reshape(len(POSITIONS), SIDE, SIDE, frames * COLOURS)
    # As the program normalises, in fp32; what the network sees is then unnormalised in fp64.
    mean, std = (torch.tensor(values).view(1, COLOURS, 1, 1, 1) for values in (MEAN, STD))
    normalised = ((clips.float() / 255.0 - mean) / std).double()
    hidden = mask(frames)
    said = kept(frames) if is_v2 else hidden
    network = videomae.with_weights(Autoencoder())
    wanted = targets(normalised * std.double() + mean.double(), said)
    errors = (network(normalised, hidden, said) - wanted).square().mean(dim=-1)
    counts = hidden[said].reshape(errors.shape)
    loss = (errors * counts).sum() / counts.sum()
    path = os.path.join(make_vit_reference.FOLDER, name)
    make_vit_reference.write_gradients(path, network, loss, {"pixels": ("U8", samples.contiguous())})


def main():
    torch.set_num_threads(1)
    write("videomae_pretrain_first_step.safetensors", FRAMES, False)
    write("videomae_v2_pretrain_first_step.safetensors", V2_FRAMES, True)


if __name__ == "__main__":
    main()
