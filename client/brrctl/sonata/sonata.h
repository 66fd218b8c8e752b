/* sonata: networks of point neurons as SONATA files (github.com/AllenInstitute/sonata): read into network files of the burst engine
 * (docs/burst.md), and its spikes written. What a file asks for that the engine has not is UNSUPPORTED, by name. One thread. */
#pragma once

#include "base/base.h"

/* Counts of an import. */
struct sonata_told {
    int64_t neurons, synapses, virtual_neurons, injections;
    int64_t merged;  /* spikes of a source that fell into one tick with another of its spikes */
    int64_t rounded; /* neurons whose weights have no common unit and were rounded */
    int64_t ticks;   /* of the simulation; 0: its configuration has no run.tstop */
    double tick_ms;
};

/* config: a configuration of a circuit, of a simulation, or of both. tick_ms NaN: run.dt. Writes the network, and the spikes of its
 * inputs as a table of injections (NULL: not). */
struct sonata_files {
    const char *config, *network, *injections;
    double tick_ms;
};
int sonata_import(const struct sonata_files *files, struct sonata_told *ret, struct err *err);
/* The fired neurons of a run of that network (.npy or .tsv) as SONATA's spikes, by population, without those of virtual nodes:
 * output ends in .h5, or in .csv. */
int sonata_export(const struct sonata_files *files, const char *fired, const char *output, int64_t *ret_spikes, struct err *err);
