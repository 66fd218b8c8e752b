/* model_fixture: the file of a small untrained network for three channels. */
#pragma once

#include "base/base.h"
#include "detect/modelfile.h"
#include "detect/seizure.h"

enum { MODEL_CHANNELS = 3, MODEL_WINDOW = 512, MODEL_HOP = 128 };

/* 0, or what failed. bf16_bound: 0 = the default. */
static inline int fixture_bounded_model(struct device *device, struct stream *queue, const char *path, double bf16_bound) {
    struct frontend_config frontend = {"custom:Fp1,F3,C3",          60,   {1, 70}, 1.5,   FRONTEND_WINDOW,
                                       FRONTEND_REFERENCE_RECORDED, NULL, NULL,    false, false};
    struct modelfile file = {.hop = MODEL_HOP, .prior = 0.0625, .bf16_bound = bf16_bound};
    struct seizure_options options = {.max_batch = 1, .precision = DTYPE_F32};
    struct seizure_net *net = NULL;
    char sha[65];
    if (seizure_preset(SEIZURE_TYPE_UNET, "tiny", MODEL_CHANNELS, &file.model, NULL))
        return -1;
    file.model.window = MODEL_WINDOW;
    memcpy(file.model.encoder_channels, (int[]){8, 8, 16, 16}, sizeof file.model.encoder_channels);
    file.model.mamba_layers = 1;
    file.model.headdim = 8;
    events_config_default(&file.events);
    file.events.on = file.events.off = 0.3; /* about what an untrained network says, so that there are events */
    file.events.min_onset = file.events.min_offset = 4;
    file.events.min_duration_s = 0.1;
    file.events.merge_gap_s = 0.05;
    int rc = modelfile_set_frontend(&file, &frontend, NULL);
    rc = rc ? rc : seizure_new(device, &file.model, &options, &net, NULL);
    rc = rc ? rc : seizure_init(net, queue, 11, 0.3, NULL);
    rc = rc ? rc : modelfile_save(path, &file, net, NULL, queue, sha, NULL);
    seizure_free(net);
    return rc;
}

static inline int fixture_model(struct device *device, struct stream *queue, const char *path) {
    return fixture_bounded_model(device, queue, path, 0);
}
