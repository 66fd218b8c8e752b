/* step: what a training does with one micro-batch on the device: gradients zeroed before the first of a batch, forward pass, loss,
 * backward pass, and after the last the gradient's norm and AdamW. On a device that can record, all of it runs as one recording
 * (nn/replay): what differs between micro-batches goes ahead of it in one small copy, what the host wants to know comes after it in
 * another. Devices that cannot run the same ops one by one, with the same bits. One owner, the device's thread. */
#ifndef BRR_RUN_STEP_H
#define BRR_RUN_STEP_H
#include "model/seizure.h"
#include "nn/optim.h"

struct step_config {
    struct seizure_net *net; /* made for training; it and optim must outlive the step */
    struct optim *optim;
    int rows; /* of a micro-batch */
    uint64_t seed;
    enum loss_kind loss;
    float alpha, gamma, pos_weight;
};
/* A micro-batch: x (rows,T,C) F32 and labels (rows,T) U8 in device memory. */
struct step_input {
    struct tensor x, labels;
    const int32_t *valid; /* host, rows */
    int64_t step, row0;   /* optimizer steps done; its first row in the batch */
    float loss_scale;
    bool first, last; /* of the batch */
};
struct step_result {
    double loss_sum;
    int64_t count;
    struct optim_report report; /* of the last micro-batch alone */
};

struct step;
int step_new(struct device *dev, const struct step_config *config, struct step **ret, struct err *err);
void step_free(struct step *step); /* NULL is fine */
/* Queues it; *input may go. One at a time: step_wait before the next. */
int step_queue(struct step *step, struct stream *s, const struct step_input *input, struct err *err);
/* Waits for the stream and keeps the optimizer's books. */
int step_wait(struct step *step, struct stream *s, struct step_result *ret, struct err *err);
/* Of the newest micro-batch, (rows,T) F32 in device memory. */
const float *step_logits(const struct step *step);

#endif
