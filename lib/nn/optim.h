/* optim: AdamW over the flat arrays of a parameter set: warm-up and cosine, constant or late falling learning rate, global-norm
 * clipping, skipped non-finite steps, optional average of the weights and of the running statistics (EMA). Betas 0.9/0.999, eps
 * 1e-8. One owner, one thread. */
#pragma once
#include "kernels/op.h"
#include "nn/param.h"

struct optim_config {
    double learning_rate, weight_decay, warmup_ratio, gradient_clip; /* clip 0 = off */
    double ema;                                                      /* decay of the average at its longest, 0 = off */
    int64_t total_steps;
    bool constant;      /* else cosine to 0 */
    int64_t decay_from; /* > 0, of a constant rate: from this step on it falls in a line to 0 at total_steps */
};

struct optim_report {
    double learning_rate, gradient_norm; /* of this step; norm before clipping */
    bool skipped;                        /* not finite: parameters untouched */
};

struct optim {
    struct optim_config config;
    struct param_set *params;
    float *m, *v, *ema; /* device, data_count each; ema NULL when off */
    double *squares;    /* device: of optim_step's gradient */
    int64_t updates;    /* of the moments: skipped steps do not count */
    float *ema_buffers; /* device, 4 × buffer_count: their average, then zeros; NULL when off */
    uint8_t *no_decay;  /* device, buffer_count zeros */
    bool exchanged;     /* the average stands in the parameters' place */
};

int optim_init(struct optim *o, struct param_set *params, const struct optim_config *config, struct stream *s, struct err *err);
void optim_done(struct optim *o);
/* The average starts from the present weights: call after they are initialised or loaded. */
int optim_start_ema(struct optim *o, struct stream *s, struct err *err);
/* Where the average is; NULL when it is off. */
const struct param_average *optim_average(const struct optim *o, struct param_average *ret);
/* Exchanges the weights and running statistics with their average, bit for bit: a second call undoes the first. Nothing happens
 * without an average. Between optimizer steps only, as the gradients' memory is used; no step may be taken while exchanged. */
int optim_exchange_ema(struct optim *o, struct stream *s, struct err *err);
int optim_zero_grad(struct optim *o, struct stream *s, struct err *err);
/* Learning rate of step t, t from 0: (t+1)/W in warm-up, then 0.5·(1 + cos(π(t−W)/(T−W))), or 1 and from step D on
 * (T−t)/(T−D), times the peak. */
double optim_rate(const struct optim_config *config, int64_t t);
/* One update from the accumulated gradients in three parts, of which the second can be recorded (nn/replay): the values of step t
 * (as above) for device memory; the gradient's norm and AdamW, queued, with the norm's square left in device memory; and the host's
 * bookkeeping once that value has arrived. */
void optim_place(const struct optim *o, int64_t t, struct train_place *place);
int optim_queue(struct optim *o, struct stream *s, const struct train_place *device_place, double *device_squares, struct err *err);
void optim_account(struct optim *o, int64_t t, double squares, struct optim_report *ret);
/* The three parts at once; waits for the stream. */
int optim_step(struct optim *o, struct stream *s, int64_t t, struct optim_report *ret, struct err *err);
