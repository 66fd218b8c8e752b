/* column: the cortical column of Potjans and Diesmann, whole or at a smaller scale: four layers of excitatory and inhibitory
 * neurons with exponential synapses, drawn delays and Poisson input. A tick is 0.1 ms; an area is a population; a membrane counts
 * from rest, in mV, and a current in hundredths of an excitatory synapse's. Source: Potjans, Diesmann, "The cell-type specific
 * cortical microcircuit" (Cerebral Cortex 24, 2014), doi 10.1093/cercor/bhs358; smaller scales keep mean and variance of the input
 * as NEST's example Potjans_2014 does. */
#pragma once
#include "burst/connectome.h"

enum { COLUMN_POPULATIONS = 8, COLUMN_TICKS_PER_S = 10000 };

/* Neurons and in-degrees are `scale` times those of the column, 0.01 to 1. The same scale and seed draw the same network. max_bytes
 * as in connectome_new. */
int column_make(double scale, uint64_t seed, int64_t max_bytes, struct connectome **ret, struct err *err);
