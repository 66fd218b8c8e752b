/* sonata_config: the configuration of a SONATA network: which JSON documents it has, and where its files lie. One thread. */
#pragma once
#include "base/json.h"

/* A document, and the folder that its relative paths begin in. */
struct sonata_document {
    struct json *json; /* NULL: there is none */
    char path[4096], folder[4096];
};
struct sonata_config {
    struct sonata_document circuit, simulation, node_sets;
};
/* INVALID unless there is a circuit. */
int sonata_config_load(const char *path, struct sonata_config *ret, struct err *err);
void sonata_config_done(struct sonata_config *c); /* also of a zeroed struct */
/* A path of a document with the variables of its manifest filled in. text NULL: INVALID, which names `what`. */
int sonata_config_path(const struct sonata_document *d, const char *text, const char *what, char ret[4096], struct err *err);
/* The file `name` of the components' folder `key`. */
int sonata_config_component(const struct sonata_config *c, const char *key, const char *name, char ret[4096], struct err *err);
/* A JSON file of at most 64 MiB. */
int sonata_json(const char *path, struct json **ret, struct err *err);
