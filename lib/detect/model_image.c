#include "detect/model_image.h"

#include "detect/seizure_net.h"
#include "nn/ckpt.h"

int64_t model_pass_samples(const struct seizure_config *model) { return seizure_step(model) ? seizure_step(model) : model->window; }

int model_launch_steps(const struct seizure_config *model) {
    enum { STEPS = 60 };
    return seizure_state_count(model) && !seizure_net_is_ensemble(model) ? STEPS : 1;
}

int64_t model_batch_bytes(const struct seizure_config *model, int max_batch) {
    int64_t rows = max_batch * model_pass_samples(model) * (int64_t)sizeof(float);
    int64_t state = max_batch * seizure_state_count(model) * (int64_t)sizeof(float);
    return 2 * rows * model->in_channels + 3 * rows + 2 * state; /* as take_buffers of the detector */
}

/* The memory of the detector, or of the network in fp32 with which bf16 is compared before (detect/precision.h), if that is more.
 */
static int count_memory(struct model_image *image, struct err *err) {
    const struct seizure_config *model = &image->file.model;
    image->precision = seizure_is_feature(model->type) ? DTYPE_F32 : image->precision;
    const struct seizure_options options = {.max_batch = image->max_batch, .precision = image->precision},
                                 alone = {.max_batch = 1, .precision = DTYPE_F32};
    struct seizure_memory memory, compared;
    int rc;
    if ((rc = seizure_memory(model, &options, &memory, err)) || (rc = seizure_memory(model, &alone, &compared, err)))
        return rc;
    int64_t own = memory.total + model_batch_bytes(model, image->max_batch), other = compared.total + model_batch_bytes(model, 1);
    image->memory_bytes = image->precision == DTYPE_BF16 && other > own ? other : own;
    return 0;
}

/* The file's metadata, the shapes of its tensors, and the memory that its network needs. */
static int examine(struct model_image *image, const struct safetensors *st, int64_t limit_bytes, struct err *err) {
    struct param_set table;
    int rc = modelfile_parse(st, image->path, &image->file, err);
    if (rc || (rc = seizure_table(&image->file.model, &table, err)))
        return rc;
    rc = ckpt_check(st, image->path, &table, err);
    param_set_done(&table);
    if (rc || (rc = count_memory(image, err)))
        return rc;
    if (limit_bytes && image->memory_bytes > limit_bytes)
        return err_set(err, ERR_EXHAUSTED, "the model needs %lld bytes of the device's memory, %lld may be used (limits.memory)",
                       (long long)image->memory_bytes, (long long)limit_bytes);
    return 0;
}

/* The header is examined before the tensors are read, and again with them: the file may have been replaced in between. */
static int read_file(struct model_image *image, int64_t limit_bytes, struct err *err) {
    OWNED_POINTER(safetensors_close) struct safetensors *header = NULL;
    int rc;
    if ((rc = safetensors_open_header(image->path, &header, err)) || (rc = examine(image, header, limit_bytes, err)) ||
        (rc = safetensors_open(image->path, &image->contents, err)))
        return rc;
    if ((rc = examine(image, image->contents, limit_bytes, err)))
        return rc;
    if (!safetensors_digest(image->contents, image->sha256))
        return err_set(err, ERR_INTERNAL, "%s: OpenSSL could not compute its SHA-256", image->path);
    return modelfile_parse_patients(image->contents, image->path, &image->patients, err);
}

int model_image_open(const char *path, const struct model_use *use, struct model_image **ret, struct err *err) {
    struct model_image *image = calloc(1, sizeof *image);
    if (!image)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s", path);
    COPY_MEMBERS(*image, *use, max_batch, precision);
    int rc = str_copy(image->path, sizeof image->path, path)
                 ? read_file(image, use->memory_limit_bytes, err)
                 : err_set(err, ERR_INVALID, "the path of a model is longer than %zu bytes", sizeof image->path - 1);
    if (rc)
        model_image_close(image);
    else
        *ret = image;
    return rc;
}

int model_image_check(const char *path, struct err *err) {
    const struct model_use use = {.max_batch = 1, .precision = DTYPE_F32};
    OWNED_POINTER(model_image_close) struct model_image *image = NULL;
    return model_image_open(path, &use, &image, err);
}

int model_image_batch(struct model_image *image, int most, int least, int64_t bytes) {
    const struct seizure_config *model = &image->file.model;
    image->max_batch = most > least ? most : least;
    while (image->max_batch > least &&
           (count_memory(image, NULL) ||
            image->memory_bytes + (model_launch_steps(model) - 1) * model_batch_bytes(model, image->max_batch) > bytes))
        image->max_batch = image->max_batch / 2 > least ? image->max_batch / 2 : least;
    (void)count_memory(image, NULL);
    return image->max_batch;
}

void model_image_close(struct model_image *image) {
    if (!image)
        return;
    safetensors_close(image->contents);
    free(image->patients);
    free(image);
}

int model_image_upload(const struct model_image *image, struct seizure_net *net, struct stream *s, struct err *err) {
    return ckpt_upload(image->contents, seizure_params(net), s, err);
}
