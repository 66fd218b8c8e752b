/* netfile: networks of spiking neurons as safetensors files (docs/burst.md), and their snapshots: a snapshot is a network file that
 * has the state too, so it may stand wherever a network does and goes on where it was. Any thread. */
#pragma once
#include "burst/burst_data.h"
#include "burst/connectome.h"
#include "store/digest.h"

/* The largest list of areas, as JSON, and the largest text beside a state. */
enum { NETFILE_MOST_AREAS_BYTES = 4 << 20, NETFILE_MOST_NOTE_BYTES = 1 << 20 };

/* Reads, checks and packs; max_bytes bounds the network's memory (0: no bound). state may be NULL; without a state in the file its
 * neurons are 0. Errors name the file, the array and the index, before the network's memory is taken. */
int netfile_load(const char *path, int64_t max_bytes, struct connectome **ret, struct burst_state *ret_state, struct err *err);
/* A shard of the network; the state is whole. */
int netfile_load_shard(const char *path, int64_t max_bytes, struct connectome_shard shard, struct connectome **ret,
                       struct burst_state *ret_state, struct err *err);
/* The areas of a network file and of its neurons, without building the network; checked as far. */
struct netfile_areas {
    int64_t neurons, synapses;
    uint32_t *area_of;             /* (neurons), malloc'd */
    struct connectome_area *areas; /* (n_areas), malloc'd */
    int n_areas;
};
int netfile_read_areas(const char *path, struct netfile_areas *ret, struct err *err);
void netfile_areas_done(struct netfile_areas *areas);

/* Atomic and durable. state NULL: the network alone, with the membranes of c. */
int netfile_save(const char *path, const struct connectome *c, const struct burst_state *state, char ret_sha256[DIGEST_HEX_SIZE],
                 struct err *err);
/* The state alone, for an owner that has the network anyway, with a text of the owner (NULL: none; at most
 * NETFILE_MOST_NOTE_BYTES). Atomic and durable. Loading gives the text as malloc'd memory (NULL: none). */
int netfile_save_state(const char *path, const struct burst_state *state, const char *note, char ret_sha256[DIGEST_HEX_SIZE],
                       struct err *err);
int netfile_load_state(const char *path, struct burst_state *ret, char **ret_note, struct err *err);
