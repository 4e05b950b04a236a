"""Recurrent cores: a step for collection, a packed pass over ragged sequences for learning."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from ver_trainer.config import NetConfig
from ver_trainer.nets.lstm import PackedLSTM


@dataclass
class Packing:
    """How the rows of a mini-batch form sequences.

    The rows are in packed order: first the first steps of all sequences (longest sequence first),
    then the second steps, and so on.

    Attributes:
        batch_sizes: int64 CPU tensor ``[longest]``, how many sequences have a step ``t``.
        state: recurrent state ``[sequences, state_size]`` before the first step of each sequence.
        action: actions of the rows, for a policy that reads the previous one.
    """

    batch_sizes: Tensor
    state: Tensor
    action: Tensor | None = None

    def earlier(self) -> Tensor:
        """Row one step earlier of every row that is not a first step ``[n - sequences]`` int64."""
        sizes = self.batch_sizes
        later = torch.arange(int(sizes[0]), int(sizes.sum()))
        return later - torch.repeat_interleave(sizes[:-1], sizes[1:])

    def last(self) -> Tensor:
        """Last row of every sequence ``[sequences]`` int64."""
        sequence = torch.arange(int(self.batch_sizes[0]))
        steps = (self.batch_sizes[:, None] > sequence).sum(0) - 1
        return (self.batch_sizes.cumsum(0) - self.batch_sizes)[steps] + sequence


class LSTMCore(nn.Module):
    """LSTM whose state is one flat row per environment: ``[n, 2 * layers * size]``."""

    def __init__(self, inputs: int, size: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, size, layers)
        self.out_features = size
        self.state_size = 2 * layers * size
        for name, parameter in self.lstm.named_parameters():
            if "weight" in name:
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)

    def step(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step for ``n`` environments; returns output and next state."""
        # Written out: a single step of torch's CPU LSTM re-arranges all weights, twice the time.
        lstm = self.lstm
        hidden, cell = self._split(state)
        following: list[Tensor] = []
        for layer in range(lstm.num_layers):
            w_in, w_rec, b_in, b_rec = lstm.all_weights[layer]
            gates = F.linear(features, w_in, b_in) + F.linear(hidden[layer], w_rec, b_rec)
            i, f, g, o = gates.chunk(4, dim=-1)
            c = torch.sigmoid(f) * cell[layer] + torch.sigmoid(i) * torch.tanh(g)
            features = torch.sigmoid(o) * torch.tanh(c)
            following += [features, c]
        return features, torch.cat(following[0::2] + following[1::2], dim=-1)

    def sequence(self, features: Tensor, packing: Packing) -> Tensor:
        """All rows of a mini-batch in packed order; returns outputs in the same order."""
        return self.unroll(features, packing)[0]

    def unroll(self, features: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        """As :meth:`sequence`, with the states after each sequence ``[sequences, state_size]``."""
        if features.device.type == "cpu" and features.dtype == torch.float32:
            return self._unroll_here(features, packing)
        packed = PackedSequence(features, packing.batch_sizes)
        output, last = self.lstm(packed, self._split(packing.state))
        return output.data, torch.cat([x.transpose(0, 1).flatten(1) for x in last], dim=-1)

    def _unroll_here(self, features: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        sizes, earlier, last = packing.batch_sizes.tolist(), packing.earlier(), packing.last()
        hidden, cell = self._split(packing.state)
        following: list[Tensor] = []
        for layer in range(self.lstm.num_layers):
            w_in, w_rec, b_in, b_rec = self.lstm.all_weights[layer]
            inputs = F.linear(features, w_in, b_in + b_rec)
            features, cells = PackedLSTM.apply(
                inputs, w_rec, hidden[layer], cell[layer], sizes, earlier
            )
            following += [features[last], cells[last]]
        return features, torch.cat(following[0::2] + following[1::2], dim=-1)

    def _split(self, state: Tensor) -> tuple[Tensor, Tensor]:
        shaped = state.view(state.shape[0], 2, self.lstm.num_layers, self.lstm.hidden_size)
        hidden, cell = shaped.unbind(1)
        return hidden.transpose(0, 1).contiguous(), cell.transpose(0, 1).contiguous()


class NoCore(nn.Module):
    """No memory: features pass through."""

    state_size = 0

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.out_features = inputs

    def step(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the features and the (empty) state unchanged."""
        return features, state

    def sequence(self, features: Tensor, packing: Packing) -> Tensor:
        """Returns the features unchanged."""
        del packing
        return features

    def unroll(self, features: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        """Returns features and (empty) states unchanged."""
        return features, packing.state


def make_core(config: NetConfig, inputs: int) -> LSTMCore | NoCore:
    """Makes the core that ``net.core`` names."""
    if config.core == "lstm":
        return LSTMCore(inputs, config.core_size, config.core_layers)
    return NoCore(inputs)
