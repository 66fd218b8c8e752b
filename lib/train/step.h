/* step: the device work of one training micro-batch: gradients zeroed before the first of a batch, forward pass, loss, backward
 * pass, and after the last one the gradient's norm and AdamW. With a reduction each micro-batch is a leaf of a tree: its gradient
 * begins at zero and is added to those before, and after the last one the ranks exchange their sums before the norm. On a device
 * that can record, all of it is one recording (nn/replay): values that differ between micro-batches are copied in before it,
 * results for the host are copied out after it. Other devices run the same ops one by one, with the same bits. One owner, the
 * device's thread. */
#pragma once
#include "detect/seizure.h"
#include "nn/optim.h"
#include "nn/reduction.h"

struct step_config {
    struct seizure_net *net; /* made for training; net, optim and reduction must outlive the step */
    struct optim *optim;
    struct reduction *reduction; /* NULL: each gradient is added to the sum of those before */
    int rows;                    /* of a micro-batch */
    uint64_t seed;
    enum loss_kind loss;
    float alpha, gamma, pos_weight;
};
/* A micro-batch: x (rows,T,C) F32 and labels (rows,T) U8 in device memory. */
struct step_input {
    struct tensor x, labels;
    const int32_t *valid; /* host, rows */
    int64_t step, row0;   /* optimizer steps done; the micro-batch's first row within the batch */
    float loss_scale;
    int leaf;         /* number of the micro-batch among those of this rank */
    bool first, last; /* of this rank's micro-batches */
};
struct step_result {
    double loss_sum;
    int64_t count;
    struct optim_report report; /* of the last micro-batch only */
};

struct step;
int step_new(struct device *dev, const struct step_config *config, struct step **ret, struct err *err);
void step_free(struct step *step); /* takes NULL */
/* Queues the work; *input may be freed then. Call step_wait before the next. */
int step_queue(struct step *step, struct stream *s, const struct step_input *input, struct err *err);
/* Waits for the stream and updates the optimizer's bookkeeping. */
int step_wait(struct step *step, struct stream *s, struct step_result *ret, struct err *err);
/* Once, after the step could not be recorded: true, and the reason in *ret. Steps then run op by op, slower, with the same bits. */
bool step_warning(struct step *step, struct err *ret);
/* Logits of the newest micro-batch, (rows,T) F32 in device memory. */
const float *step_logits(const struct step *step);
