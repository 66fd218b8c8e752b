defmodule BrrScan.MixProject do
  use Mix.Project

  def project do
    [app: :brr_scan, version: "0.1.0", elixir: "~> 1.14", deps: [], aliases: [compile: [&make/1, "compile"]]]
  end

  def application, do: []

  defp make(_) do
    {_, 0} = System.cmd("make", ["-C", __DIR__, "priv/brr_scan_nif.so"], into: IO.stream())
  end
end
