"""Prints the numbers of PyTorch that tests/kernels/recipe_ops_test.cpp and tests/train/schedule_test.cpp hold.

    python3 tests/parity/make_recipe_numbers.py         (needs torch; the tests themselves do not)
"""

import torch

START = [1.0, -0.5, 0.25, 2.0]
GRADIENTS = [[0.1, -0.2, 0.3, 0.0], [0.5, 0.1, -0.3, -1.0], [-0.2, 0.4, 0.0, 0.6]]


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def after_three_steps(make):
    parameter = torch.nn.Parameter(tensor(START))
    optimizer = make([parameter])
    for gradient in GRADIENTS:
        parameter.grad = tensor(gradient)
        optimizer.step()
    return parameter.tolist()


def lamb(lr, betas, eps, weight_decay):
    """You et al. 2020, algorithm 2, with bias correction: torch has no LAMB."""
    p, m, v = tensor(START), torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    for t, gradient in enumerate(GRADIENTS, 1):
        g = tensor(gradient)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        update = (m / (1 - betas[0] ** t)) / ((v / (1 - betas[1] ** t)).sqrt() + eps) + weight_decay * p
        p = p - lr * (p.norm() / update.norm()) * update
    return p.tolist()


def rates(make, updates, epoch_length=1):
    """The rate of each update; the scheduler steps after every `epoch_length` updates."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    scheduler = make(optimizer)
    result = []
    for update in range(updates):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if (update + 1) % epoch_length == 0:
            scheduler.step()
    return result


def main():
    schedulers, optim = torch.optim.lr_scheduler, torch.optim
    print("adadelta, defaults     ", after_three_steps(lambda p: optim.Adadelta(p)))
    print("adadelta, all settings ", after_three_steps(
        lambda p: optim.Adadelta(p, lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1)))
    print("lamb                   ", lamb(0.01, (0.9, 0.999), 1e-6, 0.1))
    print("lamb, other settings   ", lamb(0.1, (0.8, 0.95), 1e-3, 0.0))
    print("StepLR(2, 0.1), 3 updates an epoch, 5 epochs\n   ", rates(lambda o: schedulers.StepLR(o, 2, 0.1), 15, 3))
    print("MultiStepLR([1, 3], 0.1), 2 updates an epoch, 5 epochs\n   ",
          rates(lambda o: schedulers.MultiStepLR(o, [1, 3], 0.1), 10, 2))
    print("LinearLR(1, 0.04, 12)\n   ", rates(lambda o: schedulers.LinearLR(o, 1, 0.04, 12), 12))
    print("CosineAnnealingLR(12, 0.02)\n   ", rates(lambda o: schedulers.CosineAnnealingLR(o, 12, 0.02), 12))
    print("LinearLR(0.1, 1, 6)\n   ", rates(lambda o: schedulers.LinearLR(o, 0.1, 1, 6), 8))
    print("LinearLR(0.1, 1, 4), then CosineAnnealingLR(8)\n   ", rates(lambda o: schedulers.SequentialLR(o, [
        schedulers.LinearLR(o, 0.1, 1, 4), schedulers.CosineAnnealingLR(o, 8)], [4]), 12))
    parameter = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    parameter.grad = tensor([3.0, -4.0, 12.0])
    norm = torch.nn.utils.clip_grad_norm_([parameter], 2.0)
    print("clip_grad_norm_(2)     ", norm.item(), parameter.grad.tolist())
    average = tensor([1.0, -2.0])
    average.lerp_(tensor([3.0, 5.0]), 1 - 0.9)
    print("lerp(0.1)              ", average.tolist(), tensor([1.0]).lerp(tensor([3.3]), 0.75).tolist())


if __name__ == "__main__":
    main()
