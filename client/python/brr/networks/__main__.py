"""python3 -m brr.networks: import and export of networks of spiking neurons."""
import argparse
import json
import sys

from . import export_spikes, import_file


def print_sonata(told, options):
    print(f"{options.out}: {told['neurons']} neurons, {told['virtual_neurons']} of them virtual, {told['synapses']} synapses, ticks of {told['tick_ms']:g} ms")
    if options.inject:
        print(f"{options.inject}: {told['injections']} spikes of virtual neurons; {told['merged_spikes']} more came in the tick of another one and are left out")
    if told["rounded_neurons"]:
        print(f"the weights of {told['rounded_neurons']} neurons have no common unit and are rounded to 1/65025 of the largest")
    if told["ticks"]:
        inject = f" --inject {options.inject}" if options.inject else ""
        print(f"run it: brrctl burst run {options.out} --ticks {told['ticks']}{inject} --fired fired.npy")


def print_import(told, options):
    for note in told.get("notes", []):
        print(f"brr.networks: note: {note}", file=sys.stderr)
    if options.json:
        print(json.dumps({"file": options.out, **told}))
    elif "virtual_neurons" in told:
        print_sonata(told, options)
    elif options.genome:
        print(f"{options.out}: {told['neurons']} neurons ({told['deleted_neurons']} deleted), {told['synapses']} synapses "
              f"({told['deleted_synapses']} deleted and left out), after tick {told['tick']}")
    else:
        print(f"{options.out}: {told['neurons']} neurons, {told['synapses']} synapses")


def main():
    parser = argparse.ArgumentParser(prog="python3 -m brr.networks", description="Networks of spiking neurons of other programs; see docs/burst.md.")
    commands = parser.add_subparsers(dest="command", required=True)
    into = commands.add_parser("import", help="a SONATA network, by its configuration, a connectome of FEAGI (--genome FILE) or a genome as a network file")
    into.add_argument("file")
    into.add_argument("--inject", metavar="FILE.tsv", help="write the input's spikes as a table of injections (SONATA)")
    into.add_argument("--genome", metavar="FILE", help="of a connectome of FEAGI: the genome, for what it lacks")
    into.add_argument("--json", action="store_true", help="print one JSON object")
    out_of = commands.add_parser("export", help="spikes of a run as SONATA has them (.h5 or .csv)")
    out_of.add_argument("file")
    out_of.add_argument("fired", help="fired neurons of the run, .npy or .tsv")
    for command in (into, out_of):
        command.add_argument("--out", required=True, metavar="FILE", help="file to write")
        command.add_argument("--tick", type=float, metavar="MS", help="length of a tick; default: run.dt of the simulation")
    options = parser.parse_args()
    try:
        if options.command == "import":
            print_import(import_file(options.file, options.out, inject=options.inject, tick_ms=options.tick, genome=options.genome), options)
        else:
            print(f"{options.out}: {export_spikes(options.file, options.fired, options.out, tick_ms=options.tick)} spikes")
    except (ValueError, OSError) as e:
        print(f"brr.networks: {e}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as e:
        print(f"brr.networks: Python has no module {e.name}: install python3-{e.name.split('.')[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
