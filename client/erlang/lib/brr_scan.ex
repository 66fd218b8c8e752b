defmodule Brr.Scan do
  @moduledoc """
  brrd's selective scan (Mamba-1) in this process: libbrr_scan on a dirty scheduler, without Python and without a copy of the inputs.

  Tensors are binaries of little-endian float32, channels last, as `Nx.to_binary/1` gives them. For 32 sequences of 60 tokens, 512 channels and
  16 states, with steps between 0.001 and 0.1:

      {u, delta}  # {32, 60, 512}
      a           # {512, 16}, negative
      {b, c}      # {32, 60, 16}
      y = Brr.Scan.selective(u, delta, a, b, c, {32, 60, 512, 16}, clamp: {0.001, 0.1})
      Nx.from_binary(y, :f32) |> Nx.reshape({32, 60, 512})

  Options: `softplus: true`, `clamp: {low, high}` of a step, the binaries `d:` and `delta_bias:` (channels), `z:` (as u) and `h0:` (batch, channels,
  states), and `state: true`, which puts the state after the last token behind the output. An error is `{:error, text}`.
  """
  def selective(u, delta, a, b, c, {_batch, _length, _channels, _states} = shape, options \\ []) do
    case :brr_scan.selective(u, delta, a, b, c, shape, Map.new(options)) do
      {:error, text} -> {:error, List.to_string(text)}
      out -> out
    end
  end
end
