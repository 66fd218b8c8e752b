%% brr_scan: libbrr_scan's selective scan (docs/scan.md); brr_scan_nif.c says what selective/7 takes. Brr.Scan has the same for Elixir.
-module(brr_scan).
-export([selective/7]).
-on_load(init/0).

init() ->
    Priv = case code:priv_dir(?MODULE) of
        {error, _} -> filename:join(filename:dirname(filename:dirname(code:which(?MODULE))), "priv");
        Dir -> Dir
    end,
    erlang:load_nif(filename:join(Priv, "brr_scan_nif"), 0).

selective(_U, _Delta, _A, _B, _C, _Shape, _Options) -> erlang:nif_error(not_loaded).
