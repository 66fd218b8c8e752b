/* A Mamba-1 scan in this process, at once and token by token: cc scan.c $(pkg-config --cflags --libs brr_scan) */
#include <brr_scan.h>
#include <math.h>
#include <stdio.h>

enum { LENGTH = 32, CHANNELS = 8, STATES = 4 };

static float u[LENGTH][CHANNELS], delta[LENGTH][CHANNELS], out[LENGTH][CHANNELS], step[LENGTH][CHANNELS];
static float B[LENGTH][STATES], C[LENGTH][STATES], A[CHANNELS][STATES], state[CHANNELS][STATES];

static struct brr_scan_tensor tensor_of(float *data, int rank, int64_t a, int64_t b, int64_t c) {
    return (struct brr_scan_tensor){.data = data, .rank = rank, .dim = {a, b, c}};
}

/* `length` tokens from `first` on. */
static int scan_tokens(brr_scan *scan, int first, int length, float *to, struct brr_scan_error *err) {
    struct brr_scan_selective args = {
        .size = sizeof args,
        .u = tensor_of(u[first], 3, 1, length, CHANNELS),
        .delta = tensor_of(delta[first], 3, 1, length, CHANNELS),
        .A = tensor_of(A[0], 2, CHANNELS, STATES, 0),
        .B = tensor_of(B[first], 3, 1, length, STATES),
        .C = tensor_of(C[first], 3, 1, length, STATES),
        .h0 = tensor_of(state[0], 3, 1, CHANNELS, STATES),
        .hT = tensor_of(state[0], 3, 1, CHANNELS, STATES), /* the state is carried where it is */
        .out = tensor_of(to, 3, 1, length, CHANNELS),
        .softplus = 1,
    };
    return brr_scan_selective(scan, &args, err);
}

int main(void) {
    for (int t = 0; t < LENGTH; t++) {
        for (int d = 0; d < CHANNELS; d++) {
            u[t][d] = sinf((float)(t + d));
            delta[t][d] = cosf((float)(t * d));
        }
        for (int n = 0; n < STATES; n++)
            B[t][n] = C[t][n] = sinf((float)(t + 3 * n));
    }
    for (int d = 0; d < CHANNELS; d++)
        for (int n = 0; n < STATES; n++)
            A[d][n] = -(float)(n + 1);

    brr_scan *scan;
    struct brr_scan_error err = {0};
    int rc = brr_scan_open("cpu", 0, &scan, &err);
    if (rc) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    rc = scan_tokens(scan, 0, LENGTH, out[0], &err);
    for (int d = 0; d < CHANNELS; d++)
        for (int n = 0; n < STATES; n++)
            state[d][n] = 0;
    for (int t = 0; t < LENGTH && !rc; t++)
        rc = scan_tokens(scan, t, 1, step[t], &err);
    float worst = 0;
    for (int t = 0; t < LENGTH; t++)
        for (int d = 0; d < CHANNELS; d++)
            worst = fmaxf(worst, fabsf(out[t][d] - step[t][d]));
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    else
        printf("%s: %d tokens, at once and one by one, differ by %g\n", brr_scan_device(scan), LENGTH, worst);
    brr_scan_close(scan);
    return rc || worst > 1e-5f;
}
