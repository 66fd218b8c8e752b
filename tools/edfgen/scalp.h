/* scalp: the nineteen electrodes of the 10-20 system on a flat head, the double banana, and spatial weights. Pure data. */
#pragma once

enum { ELECTRODES = 19, BIPOLAR = 18, RATE_HZ = 256 };

struct electrode {
    const char *name;
    float x, y; /* right, front; the temporal electrodes lie on the unit circle */
};
extern const struct electrode SCALP[ELECTRODES];
/* Electrode indices of each derivation. */
extern const int DOUBLE_BANANA[BIPOLAR][2];

/* exp(-d²/2σ²) of each electrode's distance to (x, y), scaled so that the largest is 1. */
void scalp_weights(float x, float y, float sigma, float weights[ELECTRODES]);
float scalp_distance(int electrode, float x, float y);
