/* train_kind: what a train job asks for: the configuration that its keys are read into. Any thread. */
#pragma once
#include "detect/events.h"
#include "detect/seizure.h"
#include "kernels/op.h"
#include "work/job_data.h"

#define TRAIN_REDUCTION_NAMES "chain|tree"
enum train_reduction { TRAIN_REDUCTION_CHAIN, TRAIN_REDUCTION_TREE };
enum train_schedule { TRAIN_SCHEDULE_COSINE, TRAIN_SCHEDULE_CONSTANT, TRAIN_SCHEDULE_LATE_DECAY };
enum { TRAIN_CURVE_MOST = 20 };
enum train_precision { TRAIN_PRECISION_AUTO, TRAIN_PRECISION_FP32, TRAIN_PRECISION_BF16 };

struct train_config {
    struct job_data data;
    struct seizure_config model; /* preset and overrides applied; in_channels from the montage */
    const char *preset, *init_from;
    int type; /* enum seizure_type */
    struct {
        int64_t epochs, max_steps, batch_size, micro_batch_size, seed;
        int precision; /* enum train_precision */
        int reduction; /* enum train_reduction */
        double learning_rate, weight_decay, warmup_ratio, gradient_clip, ema;
        int schedule;                    /* enum train_schedule */
        int loss;                        /* enum loss_kind */
        double alpha, gamma, pos_weight; /* pos_weight: 0 = auto, 1 = none */
        double bf16_bound;               /* of the model file */
        int temperature;                 /* "none|auto" */
        const char *stop_metric;
        int64_t patience;       /* validations without a better metric; 0 = never */
        int64_t keep_best;      /* 1 to BEST_MAX (best.h) */
        int64_t validate_every; /* steps; 0 = each epoch */
        int64_t answers_curve;  /* points (train_curve.h); 0 = none */
    } training;
    struct events_config events;
    struct {
        bool is_one;     /* this training is a point of a curve, inside another one */
        int64_t answers; /* of the readers' that count; 0: all do, and nothing is trained */
    } point;
    bool auto_threshold;
    double target_fa_per_24h;
    struct { /* as written, turned into the members above */
        struct option_numbers encoder_channels;
        const char *pos_weight, *mixed_precision;
        int mixer, stop_metric, threshold;
        int64_t rescnn_blocks, stage_convs, mamba_layers, d_state, d_conv, expand, headdim;
        double dropout;
    } written;
};

/* The micro-batches of a batch. */
int train_leaves(const struct train_config *config);
const char *train_reduction_name(int reduction);
/* The data type that training.precision selects on this device. */
enum dtype train_precision(const struct train_config *config, const struct device_info *device);
