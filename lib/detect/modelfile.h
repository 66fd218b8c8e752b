/* modelfile: the configuration in a model file's metadata, so that a checkpoint alone is enough for detection: network, montage and
 * filters, window hop, event thresholds, label rules, training step and data. Keys `brr.kind` ("seizure"), `brr.model`,
 * `brr.frontend`, `brr.events`, `brr.labels` (JSON objects), `brr.hop`, `brr.step`, `brr.epoch`, `brr.prior` (numbers),
 * `brr.manifest`, `brr.patients` (JSON, see modelfile_patients); for a fine-tuned model `brr.init_from_sha256` (of the first
 * model's file) and, if it came from a store, `brr.init_from` (its URL); with alarm thresholds for rates of false alarms
 * `brr.alarms` (JSON, detect/alarms.h); `brr.bf16_bound` (number): by how much a logit in bf16 may differ from fp32;
 * `brr.temperature` (number): what logits are divided by before the sigmoid; `brr.notice`: what has to be said where the model, or
 * one that began as it, is given to others, such as the sources of its data; `brr.most_missing` (whole number): how many channels
 * of its montage a recording may lack; `brr.card` (JSON): where the model comes from, for people (train/train_card.h). Any thread.
 */
#pragma once

#include "detect/alarms.h"
#include "detect/events.h"
#include "detect/seizure.h"
#include "eeg/frontend.h"

enum { MODELFILE_TEXT = 1024, MODELFILE_CARD = 2048 };
#define MODELFILE_ALARMS             "brr.alarms"
#define MODELFILE_BF16_BOUND         "brr.bf16_bound"
#define MODELFILE_BF16_BOUND_DEFAULT 0.25
#define MODELFILE_TEMPERATURE        "brr.temperature"
#define MODELFILE_NOTICE             "brr.notice"
#define MODELFILE_MOST_MISSING       "brr.most_missing"
#define MODELFILE_CARD_KEY           "brr.card"

struct modelfile {
    struct seizure_config model;
    struct frontend_config frontend; /* montage points into `montage` below */
    struct events_config events;
    struct alarm_sets alarms; /* none in files of older versions */
    int64_t hop;              /* samples between windows of training and, unless the model carries its state, of the record trace */
    int64_t step, epoch;
    double prior;       /* share of seizure samples in training */
    double bf16_bound;  /* greatest difference of logits in bf16 (detect/precision.h); 0 when saved: none is written. A file without
                         * one allows MODELFILE_BF16_BOUND_DEFAULT */
    double temperature; /* logits are divided by it before the sigmoid; 0 = 1, as in files that do not say it */
    bool had_rejecter;  /* the file names a rejecter of events, which is not applied (modelfile_note) */
    int64_t most_missing; /* channels of the montage that a recording may lack; a network's inputs of them are then 0 */
    uint64_t absent;      /* those that this recording lacks, a bit each; not in the file */
    char montage[MODELFILE_TEXT];
    char labels[64];                                            /* data.labels of the job */
    char manifest[80];                                          /* hash of the training manifest */
    char init_from[MODELFILE_TEXT + 256], init_from_sha256[65]; /* "" = none */
    char notice[2 * MODELFILE_TEXT];                            /* "" = none */
    char card[MODELFILE_CARD];                                  /* JSON object; "" = none */
    const char *patients;                                       /* borrowed JSON to be saved, or NULL; not set by modelfile_read */
};

/* Copies a frontend configuration whose text the modelfile then owns. INVALID when the montage is too long. */
int modelfile_set_frontend(struct modelfile *m, const struct frontend_config *frontend, struct err *err);
/* Samples between the answers of the record trace, and samples that the first one waits for: the step of a model that carries its
 * state (seizure_step), else hop and model.window. */
int64_t modelfile_hop(const struct modelfile *m);
int64_t modelfile_window(const struct modelfile *m);
/* What people have to know of a model that they run, or "". */
const char *modelfile_note(const struct modelfile *m);
/* 1/temperature, what logits are multiplied by. */
static inline float modelfile_logit_scale(const struct modelfile *m) {
    return m->temperature > 0 ? (float)(1 / m->temperature) : 1;
}
/* Saves the net's parameters and running statistics with this metadata, or their average if it is not NULL. */
struct stream;
struct param_average;
int modelfile_save(const char *path, const struct modelfile *m, struct seizure_net *net, const struct param_average *average,
                   struct stream *s, char ret_sha256[65], struct err *err);
/* Saves the initial weights of such a model with this metadata. Needs no device. */
int modelfile_save_initial(const char *path, const struct modelfile *m, struct err *err);
/* Reads the metadata only. INVALID when the file is not a model of this kind. */
int modelfile_read(const char *path, struct modelfile *ret, struct err *err);
/* The patients of the model's training, and of the trainings that it was fine-tuned from: a JSON array of what patients_put_hashes
 * (windows/patients.h) writes, malloc'd. NULL for models that do not say it, which older versions wrote. */
int modelfile_patients(const char *path, char **ret, struct err *err);
/* The same of a file that is open, or of its header alone; path is for errors. */
struct safetensors;
int modelfile_parse(const struct safetensors *st, const char *path, struct modelfile *ret, struct err *err);
int modelfile_parse_patients(const struct safetensors *st, const char *path, char **ret, struct err *err);
