/* probe_body: loops that do nothing but exponentials or multiply-adds in registers: the rates that floors are computed from. */
#pragma once
#include "kernels/cpu/scan_simd.h"

/* `rounds` exponentials of each of 8 vectors; returns something that depends on all of them. */
static float probe_exponentials(int64_t rounds) {
    vf x[8], sum = {0};
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        x[i] = vf_all(-0.1f * (float)(i + 1));
    for (int64_t r = 0; r < rounds; r++) {
        vf e[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            e[i] = x[i] * (float)(r & 7);
        vf_exp2_many(e, 8);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            sum += e[i];
    }
    return vf_sum(sum);
}

/* `rounds` multiply-adds of each of 12 vectors. */
static float probe_multiply_adds(int64_t rounds) {
    vf x[12], factor = vf_all(0.999f), term = vf_all(0.001f), sum = {0};
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++)
        x[i] = vf_all((float)i);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            x[i] = x[i] * factor + term;
    }
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++)
        sum += x[i];
    return vf_sum(sum);
}
