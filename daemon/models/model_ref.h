/* model_ref: the reference by which a caller names a model, and the one way from it to a file. What the tables of the daemon say
 * comes first, on the loop (models_refer); the file is looked for, fetched and held by model_resolve, on any other thread. */
#pragma once
#include "daemon/live/live_message.h"
#include "daemon/models/model_file.h"
#include "daemon/models/places.h"

enum model_origin {
    MODEL_OF_CALLER, /* path is what the caller said */
    MODEL_SERVED,    /* it serves: there is nothing to look at */
    MODEL_OF_DAEMON, /* of a job, or built in */
    MODEL_UPLOAD,    /* it may belong to another caller */
    MODEL_OBJECT     /* of a store: path is its URL */
};

/* A REF that the tables know; no file was opened. */
struct model_ref {
    enum model_origin origin;
    char path[LIVE_PATH], spare[LIVE_PATH]; /* of the file; where else it may be, or "" */
    char name[LIVE_NAME];                   /* the bounded name its metrics go under */
    struct places places;                   /* what the caller may open */
    struct err absent;                      /* the error for a file that is not there */
};

/* The REF of an object of a store that the daemon knows; no server is asked. NOT_FOUND, INVALID without a key. */
int model_ref_object(const struct places *places, const char *url, struct model_ref *ret, struct err *err);
/* The path of an upload's file. INVALID for a name other than [A-Za-z0-9._-]+ of at most 64 characters. */
int model_upload_path(const char *results_dir, const char *name, char path[LIVE_PATH], struct err *err);

struct model_wish {
    const struct source_config *source; /* objects are fetched through its cache and leased; NULL: they are refused */
    const char *owner;                  /* the file is linked for this owner, and an object becomes its upload first; NULL: not */
    const atomic_bool *stop;            /* cancels a fetch */
    const char *sha256;                 /* of the weights that the owner wants, wherever they are; NULL: those of the REF */
};
/* Finds the file, and holds it as the wish says: NULL, none. NOT_FOUND or DENIED list the paths that were tried; PRECONDITION: an
 * object, which the caller cannot use; those of model_fetch and model_file_lease, and INVALID for an object or a file to be
 * linked that is no model; NOT_FOUND if neither a link nor the REF has the weights of the wish. Blocks. */
int model_resolve(const struct model_ref *ref, const struct model_wish *wish, struct model_file *ret, struct err *err);
