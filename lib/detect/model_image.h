/* model_image: the contents of a model file in memory, read and checked, before they are uploaded to a device (detect/detector.h).
 * Needs no device. Any thread; model_image_open waits for the volume of the file. */
#pragma once
#include "detect/modelfile.h"
#include "store/safetensors.h"

/* How the detectors of this file will compute. */
struct model_use {
    int max_batch;              /* windows per call */
    enum dtype precision;       /* DTYPE_F32 or DTYPE_BF16; models without a network compute in F32 */
    int64_t memory_limit_bytes; /* 0 = no limit */
};

struct model_image {
    char path[4096];
    struct modelfile file;
    char *patients; /* modelfile_patients; owned */
    char sha256[DIGEST_HEX_SIZE];
    struct safetensors *contents;
    int max_batch; /* of the detector that it is for, as its precision */
    enum dtype precision;
    int64_t memory_bytes; /* that this detector takes of its device */
};
/* Samples that the network takes at once. */
int64_t model_pass_samples(const struct seizure_config *model);
/* Steps that a device which queues computes in one launch: more than 1 for models that carry their state. */
int model_launch_steps(const struct seizure_config *model);
/* Bytes of a detector's windows, states, logits and probabilities, beside those of the network (seizure_memory), with one step in a
 * launch; max_batch times as many as there are steps for more. */
int64_t model_batch_bytes(const struct seizure_config *model, int max_batch);
/* Allocates nothing for the tensors of a file whose tensors are not those of its configuration (INVALID), or whose network needs
 * more than use->memory_limit_bytes of the device (EXHAUSTED). */
int model_image_open(const char *path, const struct model_use *use, struct model_image **ret, struct err *err);
/* Checks a whole file as model_image_open does, without a limit of memory. */
int model_image_check(const char *path, struct err *err);
/* Its detector is to take `most` windows per call, or a half, a quarter … of them, but not fewer than `least`, so that it needs at
 * most `bytes` on a device that queues its work. Returns the number. */
int model_image_batch(struct model_image *image, int most, int least, int64_t bytes);
void model_image_close(struct model_image *image); /* takes NULL */
OWNABLE(struct model_image, model_image_close)
/* Loads the parameters of a network of the image's configuration. */
struct stream;
int model_image_upload(const struct model_image *image, struct seizure_net *net, struct stream *s, struct err *err);
