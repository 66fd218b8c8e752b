#include "tools/edfgen/scalp.h"

#include "base/base.h"

const struct electrode SCALP[ELECTRODES] = {
    {"Fp1", -0.31f, 0.95f}, {"F3", -0.40f, 0.50f},  {"C3", -0.45f, 0},      {"P3", -0.40f, -0.50f}, {"F7", -0.81f, 0.59f},
    {"T3", -1, 0},          {"T5", -0.81f, -0.59f}, {"O1", -0.31f, -0.95f}, {"Fz", 0, 0.45f},       {"Cz", 0, 0},
    {"Pz", 0, -0.45f},      {"Fp2", 0.31f, 0.95f},  {"F4", 0.40f, 0.50f},   {"C4", 0.45f, 0},       {"P4", 0.40f, -0.50f},
    {"F8", 0.81f, 0.59f},   {"T4", 1, 0},           {"T6", 0.81f, -0.59f},  {"O2", 0.31f, -0.95f},
};

enum { FP1, F3, C3, P3, F7, T3, T5, O1, FZ, CZ, PZ, FP2, F4, C4, P4, F8, T4, T6, O2 };
const int DOUBLE_BANANA[BIPOLAR][2] = {
    {FP1, F7}, {F7, T3}, {T3, T5}, {T5, O1},  {FP1, F3}, {F3, C3}, {C3, P3}, {P3, O1}, {FP2, F4},
    {F4, C4},  {C4, P4}, {P4, O2}, {FP2, F8}, {F8, T4},  {T4, T6}, {T6, O2}, {FZ, CZ}, {CZ, PZ},
};

float scalp_distance(int electrode, float x, float y) { return hypotf(SCALP[electrode].x - x, SCALP[electrode].y - y); }

void scalp_weights(float x, float y, float sigma, float weights[ELECTRODES]) {
    float largest = 0;
    for (int c = 0; c < ELECTRODES; c++) {
        float d = scalp_distance(c, x, y);
        weights[c] = expf(-d * d / (2 * sigma * sigma));
        largest = fmaxf(largest, weights[c]);
    }
    for (int c = 0; c < ELECTRODES; c++)
        weights[c] /= largest;
}
