/* ckpt: a model file (safetensors, F32, exactly the table's tensors) and the state file beside it (optimizer moments, raw weights
 * under EMA). Writes are atomic and durable and are read back; loads check every name and shape. Any thread that owns the
 * parameter set; files are read and written on the calling thread. */
#pragma once
#include "nn/optim.h"
#include "store/safetensors.h"

/* Metadata of a model file, and its digest. */
struct ckpt_file {
    const char *path;
    const struct safetensors_pair *metadata;
    size_t n_metadata;
};
/* average: written in place of the parameters and their running statistics; NULL = those. */
int ckpt_save_model(const struct ckpt_file *file, const struct param_set *set, const struct param_average *average,
                    struct stream *s, char ret_sha256[DIGEST_HEX_SIZE], struct err *err);
/* ERR_INVALID names the first tensor that is missing, unexpected, of another shape, not finite, or a variance below 0; nothing is
 * changed then. head_may_differ:
 * "head.*" tensors that are absent or of another shape keep their present values (fine-tuning). */
int ckpt_load_model(const char *path, struct param_set *set, struct stream *s, bool head_may_differ, struct err *err);
/* The two halves of ckpt_load_model for a file that is open; path is for errors. The check takes the file's header alone, too,
 * which has no values to be checked, and of the set only its table. ckpt_upload takes exactly the set's tensors, and is for files
 * that were checked. */
int ckpt_check(const struct safetensors *st, const char *path, const struct param_set *set, struct err *err);
int ckpt_upload(const struct safetensors *st, struct param_set *set, struct stream *s, struct err *err);
int ckpt_save_state(const struct ckpt_file *file, const struct optim *o, struct stream *s, char ret_sha256[DIGEST_HEX_SIZE],
                    struct err *err);
/* Call after ckpt_load_model of the pair's model file: loads moments, the average (the model file's content), and the raw weights
 * with their running statistics (older files have none of these: the model file's are theirs); o->updates comes from the metadata
 * `updates`. INVALID changes nothing. The caller owns the open file. */
int ckpt_load_state(const struct safetensors *st, const char *path, struct optim *o, struct stream *s, struct err *err);
