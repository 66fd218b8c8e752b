#include "detect/lanes.h"

#include "kernels/lanes.h"
#include "kernels/op.h"

/* One thread's device, with all that a row needs. */
struct lane {
    struct device *device;
    struct stream *stream;
    struct seizure_net *net;
    void *logits;
};

struct infer_lanes {
    struct seizure_config model;
    float logit_scale;               /* modelfile_logit_scale */
    const struct model_image *image; /* while they are being opened */
    int64_t samples, n_state;        /* of a row */
    int n, rows;                     /* lanes; rows that each computes at once */
    struct lane lanes[];
};

static int open_lane(const void *ctx, int64_t i, int thread, struct err *err) {
    struct infer_lanes *l = (struct infer_lanes *)(uintptr_t)ctx;
    struct lane *lane = &l->lanes[i];
    const struct seizure_options options = {.max_batch = l->rows, .precision = l->image->precision};
    (void)thread;
    int rc;
    if ((rc = device_open("cpu", 1, &lane->device, err)) || (rc = stream_open(lane->device, STREAM_HIGH, &lane->stream, err)) ||
        (rc = seizure_new(lane->device, &l->model, &options, &lane->net, err)) ||
        (rc = model_image_upload(l->image, lane->net, lane->stream, err)))
        return rc;
    return device_alloc(lane->device, (size_t)(l->rows * l->samples) * sizeof(float), &lane->logits, err);
}

int infer_lanes_open(const struct model_image *image, int n, int rows, struct infer_lanes **ret, struct err *err) {
    struct infer_lanes *l = calloc(1, sizeof *l + (size_t)n * sizeof l->lanes[0]);
    if (!l)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d lanes", n);
    *l = (struct infer_lanes){.model = image->file.model,
                              .logit_scale = modelfile_logit_scale(&image->file),
                              .image = image,
                              .samples = model_pass_samples(&image->file.model),
                              .n_state = seizure_state_count(&image->file.model),
                              .n = n,
                              .rows = rows};
    int rc = lanes_run(&(struct lanes_work){open_lane, l, 0, n, n}, err);
    l->image = NULL;
    if (rc)
        infer_lanes_close(l);
    else
        *ret = l;
    return rc;
}

void infer_lanes_close(struct infer_lanes *l) {
    if (!l)
        return;
    for (int i = 0; i < l->n; i++) {
        struct lane *lane = &l->lanes[i];
        if (lane->logits)
            device_free(lane->device, lane->logits);
        seizure_free(lane->net);
        stream_close(lane->stream);
        device_close(lane->device);
    }
    free(l);
}

int64_t infer_lanes_bytes(const struct seizure_config *model, enum dtype precision, int n, int rows) {
    const struct seizure_options options = {.max_batch = rows, .precision = precision};
    struct seizure_memory memory;
    return seizure_memory(model, &options, &memory, NULL) ? INT64_MAX : n * memory.total;
}

struct batch {
    struct infer_lanes *lanes;
    const struct lane_rows *rows;
    int each; /* rows of a unit */
};

static int run_rows(const void *ctx, int64_t i, int thread, struct err *err) {
    const struct batch *b = ctx;
    const struct infer_lanes *l = b->lanes;
    const struct lane *lane = &l->lanes[thread];
    const int64_t first = i * b->each, n = b->rows->n - first < b->each ? b->rows->n - first : b->each;
    const float *row = b->rows->x + first * l->samples * l->model.in_channels;
    struct tensor x = tensor_3d((void *)(uintptr_t)row, DTYPE_F32, n, l->samples, l->model.in_channels),
                  logits = tensor_2d(lane->logits, DTYPE_F32, n, l->samples),
                  state = tensor_2d(l->n_state ? b->rows->state + first * l->n_state : NULL, DTYPE_F32, n, l->n_state);
    float *p = b->rows->p + first * l->samples;
    struct sigmoid_args sigmoid = {.x = logits, .y = tensor_2d(p, DTYPE_F32, n, l->samples)};
    struct eltwise_args scaled = {.kind = ELTWISE_SCALE, .a = logits, .y = logits, .alpha = l->logit_scale};
    int rc = seizure_step(&l->model) ? seizure_infer_step(lane->net, lane->stream, &x, &state, &logits, err)
                                     : seizure_infer(lane->net, lane->stream, &x, &logits, err);
    rc = rc || scaled.alpha == 1 ? rc : op_eltwise(lane->stream, &scaled, err);
    return rc ? rc : op_sigmoid(lane->stream, &sigmoid, err);
}

int infer_lanes_run(struct infer_lanes *l, struct stream *s, const struct lane_rows *rows, struct err *err) {
    const int share = (rows->n + l->n - 1) / l->n, each = share < l->rows ? share : l->rows;
    const int units = (rows->n + each - 1) / each;
    const struct batch batch = {l, rows, each};
    return lanes_run_as(s, &(struct lanes_work){run_rows, &batch, 0, units, units < l->n ? units : l->n}, err);
}
