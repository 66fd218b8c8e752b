/* gpu_model: the networks that the programs beside it run. */
#pragma once
#include <string.h>

#include "detect/seizure.h"

/* A preset by name, or "mini": a tiny network that an emulated device computes in a second. Non-zero: there is no such preset. */
static inline int gpu_model(const char *name, int channels, struct seizure_config *ret) {
    bool mini = !strcmp(name, "mini");
    int rc = seizure_preset(SEIZURE_TYPE_UNET, mini ? "tiny" : name, channels, ret, NULL);
    if (mini) {
        ret->window = 256;
        memcpy(ret->encoder_channels, (int[]){8, 8, 16, 16}, sizeof ret->encoder_channels);
        ret->rescnn_blocks = ret->mamba_layers = 1;
        ret->headdim = 8;
        ret->d_state = 8;
    }
    return rc;
}
