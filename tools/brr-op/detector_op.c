/* The whole detector from a model file: x (B,C,T) normalised samples → logits (B,T). */
#include <stdlib.h>
#include <string.h>

#include "bridge.h"
#include "detect/modelfile.h"
#include "nn/ckpt.h"

/* (B,C,T) of the file → (B,T,C) on the device. */
static struct tensor channels_last(struct bridge *b, const struct tensor *x) {
    int64_t rows = x->dim[0], c = x->dim[1], t = x->dim[2];
    struct tensor y = bridge_temporary(b, BRIDGE_PARAMETER, 3, (int64_t[TENSOR_MAX_RANK]){rows, t, c});
    size_t bytes = (size_t)(rows * c * t) * sizeof(float);
    float *from = malloc(bytes + 1), *to = malloc(bytes + 1);
    if (!b->rc && (!from || !to))
        b->rc = err_set(b->err, ERR_EXHAUSTED, "detector: out of memory");
    if (!b->rc)
        b->rc = stream_to_host(b->stream, from, x->data, bytes, b->err);
    if (!b->rc)
        b->rc = stream_sync(b->stream, b->err);
    for (int64_t i = 0; i < rows * c * t && !b->rc; i++)
        to[i / (c * t) * c * t + i % t * c + i / t % c] = from[i];
    if (!b->rc)
        b->rc = stream_to_device(b->stream, y.data, to, bytes, b->err);
    if (!b->rc)
        b->rc = stream_sync(b->stream, b->err);
    free(from);
    free(to);
    return y;
}

void run_detector(struct bridge *b) {
    const char *path = bridge_text(b, "checkpoint", NULL);
    struct tensor x = bridge_in(b, "x", BRIDGE_PARAMETER, false);
    if (!b->rc && !path)
        b->rc = err_set(b->err, ERR_INVALID, "detector: name the model file with --attr checkpoint=FILE");
    struct modelfile *file = b->rc ? NULL : malloc(sizeof *file);
    if (!b->rc && !file)
        b->rc = err_set(b->err, ERR_EXHAUSTED, "detector: out of memory");
    if (!bridge_attributes_done(b))
        b->rc = modelfile_read(path, file, b->err);
    if (!b->rc && (x.rank != 3 || x.dim[1] != file->model.in_channels || x.dim[2] != file->model.window))
        b->rc = err_set(b->err, ERR_INVALID, "detector: x must be (B,%d,%lld), as the model was trained", file->model.in_channels,
                        (long long)file->model.window);
    struct seizure_net *net = NULL;
    struct seizure_options options = {.max_batch = (int)x.dim[0], .precision = b->dtype};
    if (!b->rc)
        b->rc = seizure_new(b->device, &file->model, &options, &net, b->err);
    if (!b->rc)
        b->rc = ckpt_load_model(path, seizure_params(net), b->stream, false, b->err);
    if (!b->rc) {
        seizure_touch(net);
        struct tensor in = channels_last(b, &x);
        struct tensor logits = bridge_out(b, "logits", BRIDGE_PARAMETER, 2, (int64_t[TENSOR_MAX_RANK]){x.dim[0], x.dim[2]});
        if (!b->rc)
            b->rc = seizure_infer(net, b->stream, &in, &logits, b->err);
        if (!b->rc)
            b->rc = stream_sync(b->stream, b->err);
    }
    seizure_free(net);
    free(file);
}
