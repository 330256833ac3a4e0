"""Makes vit_timm.safetensors, vit_torchvision.safetensors, vit_hugging_face.safetensors and vit_transformers.safetensors:
weights of a small ViT as each library names them (transformers names them otherwise in its files than in itself), two
images, and what the library makes of these in fp64.

Needs torch, torchvision, timm, transformers and safetensors. Run it only to renew the reference:
    python3 -B tests/parity/make_vit_names_reference.py
The test (tests/train/vit_names_test.cpp) reads the files and needs none of them.
"""

import functools
import os
import tempfile

import timm
import torch
import torchvision
import transformers
from safetensors.torch import load_file, save_file

IMAGE, PATCH, DIM, DEPTH, HEADS, HIDDEN, CLASSES = 8, 4, 8, 2, 2, 16, 3
FOLDER = os.path.dirname(os.path.abspath(__file__))


def write(name, model, state, logits_of):
    """state: what the file has of the model, whose weights it is."""
    pixels = torch.randint(0, 256, (2, IMAGE, IMAGE, 3), dtype=torch.uint8)
    with torch.no_grad():
        logits = logits_of(model.double().eval()((pixels.permute(0, 3, 1, 2).float() / 255).double()))
    tensors = {key: value.float().contiguous() for key, value in state.items()}
    save_file(tensors | {"pixels": pixels, "logits": logits}, f"{FOLDER}/vit_{name}.safetensors")


def randomise(model):
    """So that biases, norms, positions and the head matter."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 1 if parameter.dim() == 1 else 0, 0.3)
    return model


def main():
    torch.manual_seed(0)
    model = randomise(timm.models.vision_transformer.VisionTransformer(
        img_size=IMAGE, patch_size=PATCH, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, mlp_ratio=HIDDEN / DIM, num_classes=CLASSES))
    write("timm", model, model.state_dict(), lambda out: out)

    model = randomise(torchvision.models.VisionTransformer(
        IMAGE, PATCH, DEPTH, HEADS, DIM, HIDDEN, num_classes=CLASSES, norm_layer=functools.partial(torch.nn.LayerNorm, eps=1e-6)))
    write("torchvision", model, model.state_dict(), lambda out: out)

    model = randomise(transformers.ViTForImageClassification(transformers.ViTConfig(
        image_size=IMAGE, patch_size=PATCH, hidden_size=DIM, num_hidden_layers=DEPTH, num_attention_heads=HEADS,
        intermediate_size=HIDDEN, num_labels=CLASSES)))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        saved = load_file(f"{folder}/model.safetensors")
    write("hugging_face", model, saved, lambda out: out.logits)
    write("transformers", model, model.state_dict(), lambda out: out.logits)


if __name__ == "__main__":
    main()
