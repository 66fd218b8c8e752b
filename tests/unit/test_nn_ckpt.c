/* Checkpoints: what is in a model file, loading it back, refusals that name the tensor and touch nothing, the state file. */

#include "detect/seizure.h"
#include "nn/ckpt.h"
#include "unit/cmocka_all.h"

struct fixture {
    struct device *dev;
    struct stream *s;
    struct seizure_config config;
    struct seizure_net *net;
    struct param_set *set;
    char dir[64], model[128], state[128];
};

static struct err err;
static const struct safetensors_pair metadata[] = {{"brr.step", "12"}, {"note", "two words"}};

static struct seizure_config small_config(int widest) {
    struct seizure_config c;
    assert_int_equal(seizure_preset(SEIZURE_TYPE_UNET, "tiny", 3, &c, NULL), 0);
    c.window = 256;
    memcpy(c.encoder_channels, (int[]){4, 5, 6, widest}, sizeof c.encoder_channels);
    c.mamba_layers = 1;
    c.headdim = 4;
    return c;
}

static struct seizure_net *open_net(struct fixture *f, const struct seizure_config *c, uint64_t seed) {
    struct seizure_options o = {.max_batch = 1, .training = true, .precision = DTYPE_F32};
    struct seizure_net *net = NULL;
    assert_int_equal(seizure_new(f->dev, c, &o, &net, &err), 0);
    assert_int_equal(seizure_init(net, f->s, seed, 0.2, &err), 0);
    return net;
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    str_copy(f->dir, sizeof f->dir, "/tmp/brr-ckpt-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    str_format(f->model, sizeof f->model, "%s/m.safetensors", f->dir);
    str_format(f->state, sizeof f->state, "%s/m.state.safetensors", f->dir);
    assert_int_equal(device_open("cpu", 1, &f->dev, &err), 0);
    assert_int_equal(stream_open(f->dev, STREAM_NORMAL, &f->s, &err), 0);
    f->config = small_config(8);
    f->net = open_net(f, &f->config, 5);
    f->set = seizure_params(f->net);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    seizure_free(f->net);
    stream_close(f->s);
    device_close(f->dev);
    fsio_remove_tree(f->dir, NULL);
    free(f);
    return 0;
}

static void save(struct fixture *f, char sha[DIGEST_HEX_SIZE]) {
    assert_int_equal(ckpt_save_model(&(struct ckpt_file){f->model, metadata, 2}, f->set, NULL, f->s, sha, &err), 0);
}

static void a_model_file_holds_exactly_the_table(void **state) {
    struct fixture *f = *state;
    struct safetensors *st = NULL;
    char sha[DIGEST_HEX_SIZE], again[DIGEST_HEX_SIZE];
    save(f, sha);
    assert_int_equal(digest_file(f->model, again, &err), 0);
    assert_string_equal(sha, again);
    assert_int_equal(safetensors_open(f->model, &st, &err), 0);
    assert_int_equal(safetensors_count(st), f->set->count);
    assert_string_equal(safetensors_metadata(st, "note"), "two words");
    for (int i = 0; i < f->set->count; i++) {
        const struct param *p = &f->set->items[i];
        const struct safetensors_entry *e = safetensors_find(st, p->name);
        assert_non_null(e);
        assert_int_equal(e->dtype, SAFETENSORS_F32);
        assert_int_equal(e->rank, p->rank);
        for (int k = 0; k < p->rank; k++)
            assert_int_equal(e->shape[k], p->dim[k]);
        assert_memory_equal(e->data, param_value(f->set, p).data, e->bytes);
        assert_null(strstr(p->name, "num_batches_tracked"));
    }
    const struct safetensors_entry *taps = safetensors_find(st, "mamba.0.bwd.conv.weight");
    assert_true(taps->rank == 3 && taps->shape[1] == 1 && taps->shape[2] == 4);
    safetensors_close(st);
}

static void loading_restores_every_value_and_refreshes_packed_copies(void **state) {
    struct fixture *f = *state;
    char sha[DIGEST_HEX_SIZE];
    save(f, sha);
    struct seizure_net *other = open_net(f, &f->config, 6);
    struct param_set *set = seizure_params(other);
    uint64_t version = set->version;
    assert_memory_not_equal(set->data, f->set->data, (size_t)set->data_count * sizeof(float));
    assert_int_equal(ckpt_load_model(f->model, set, f->s, false, &err), 0);
    assert_memory_equal(set->data, f->set->data, (size_t)set->data_count * sizeof(float));
    assert_memory_equal(set->buffers, f->set->buffers, (size_t)set->buffer_count * sizeof(float));
    assert_true(set->version > version);
    seizure_free(other);
}

/* The model file's tensors with one left out, one added or one of another shape. */
enum change { MISSING, UNEXPECTED, RESHAPED };
static void rewrite(struct fixture *f, enum change change, const char *name) {
    struct safetensors *st = NULL;
    struct safetensors_entry entries[512];
    size_t n = 0;
    char sha[DIGEST_HEX_SIZE], path[128];
    static const float zeros[4096];
    assert_int_equal(safetensors_open(f->model, &st, &err), 0);
    for (size_t i = 0; i < safetensors_count(st); i++) {
        struct safetensors_entry e = *safetensors_at(st, i);
        bool it = !strcmp(e.name, name);
        if (it && change == MISSING)
            continue;
        if (it && change == RESHAPED) {
            e.shape[0]++;
            e.bytes = 4;
            for (int k = 0; k < e.rank; k++)
                e.bytes *= (size_t)e.shape[k];
            assert_true(e.bytes <= sizeof zeros);
            e.data = zeros;
        }
        entries[n++] = e;
    }
    if (change == UNEXPECTED)
        entries[n++] =
            (struct safetensors_entry){.name = name, .dtype = SAFETENSORS_F32, .rank = 1, .shape = {3}, .data = zeros, .bytes = 12};
    struct safetensors_content content = {entries, n, NULL, 0};
    str_format(path, sizeof path, "%s/changed", f->dir);
    assert_int_equal(safetensors_write(path, &content, sha, &err), 0);
    safetensors_close(st);
    assert_int_equal(rename(path, f->model), 0);
}

static void files_of_another_model_are_refused_by_name_and_touch_nothing(void **state) {
    struct fixture *f = *state;
    static const struct {
        enum change change;
        const char *name, *expected;
    } cases[] = {
        {MISSING, "encoder.3.bn2.running_var", "no tensor 'encoder.3.bn2.running_var'"},
        {UNEXPECTED, "encoder.9.extra", "encoder.9.extra"},
        {RESHAPED, "decoder.3.bn2.bias", "'decoder.3.bn2.bias' is F32 (5); the model needs F32 (4)"},
        {RESHAPED, "head.proj.weight", "'head.proj.weight' is F32 (20,4,1); the model needs F32 (19,4,1)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char sha[DIGEST_HEX_SIZE];
        save(f, sha);
        rewrite(f, cases[i].change, cases[i].name);
        struct seizure_net *other = open_net(f, &f->config, 6);
        struct param_set *set = seizure_params(other);
        size_t bytes = (size_t)set->data_count * sizeof(float);
        float *before = malloc(bytes);
        memcpy(before, set->data, bytes);
        assert_int_equal(ckpt_load_model(f->model, set, f->s, false, &err), ERR_INVALID);
        if (!strstr(err.message, cases[i].expected))
            fail_msg("'%s' does not say '%s'", err.message, cases[i].expected);
        assert_memory_equal(before, set->data, bytes);
        free(before);
        seizure_free(other);
    }
}

static void another_head_may_differ_when_asked(void **state) {
    struct fixture *f = *state;
    char sha[DIGEST_HEX_SIZE];
    save(f, sha);
    rewrite(f, RESHAPED, "head.proj.weight");
    rewrite(f, MISSING, "head.out.bias");
    rewrite(f, UNEXPECTED, "head.second.bias");
    struct seizure_net *other = open_net(f, &f->config, 6);
    struct param_set *set = seizure_params(other);
    const struct param *head = param_find(set, "head.proj.weight"), *stem = param_find(set, "encoder.stem.conv.weight");
    float first = set->data[head->offset];
    assert_int_equal(ckpt_load_model(f->model, set, f->s, true, &err), 0);
    assert_true(set->data[head->offset] == first);
    assert_memory_equal(set->data + stem->offset, f->set->data + stem->offset, (size_t)stem->count * sizeof(float));
    seizure_free(other);
}

static void a_damaged_or_absent_file_is_an_error(void **state) {
    struct fixture *f = *state;
    assert_int_equal(ckpt_load_model(f->model, f->set, f->s, false, &err), ERR_NOT_FOUND);
    char sha[DIGEST_HEX_SIZE];
    save(f, sha);
    FILE *file = fopen(f->model, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_int_equal(truncate(f->model, ftell(file) - 9), 0);
    fclose(file);
    assert_int_not_equal(ckpt_load_model(f->model, f->set, f->s, false, &err), 0);
}

/* Train a little, save both files, load them into a fresh net: every array equal, and the next step too. */
static void check_state(struct fixture *f, double ema) {
    struct optim_config c = {.learning_rate = 1e-2, .weight_decay = 0.1, .gradient_clip = 1, .ema = ema, .total_steps = 10};
    struct optim a, b;
    struct optim_report r;
    char sha[DIGEST_HEX_SIZE];
    assert_int_equal(optim_init(&a, f->set, &c, f->s, &err), 0);
    for (int64_t k = 0; k < f->set->data_count; k++)
        f->set->grad[k] = (float)((k * 7919) % 101 - 50) * 1e-3f;
    for (int t = 0; t < 3; t++) {
        for (int64_t k = 0; k < f->set->buffer_count; k++)
            f->set->buffers[k] = (float)(k % 7 + t) * 0.5f;
        assert_int_equal(optim_step(&a, f->s, t, &r, &err), 0);
    }
    struct safetensors_pair pairs[] = {{"updates", "3"}};
    const struct param_average average = {a.ema, a.ema_buffers};
    assert_int_equal(
        ckpt_save_model(&(struct ckpt_file){f->model, metadata, 2}, f->set, ema > 0 ? &average : NULL, f->s, sha, &err), 0);
    assert_int_equal(ckpt_save_state(&(struct ckpt_file){f->state, pairs, 1}, &a, f->s, sha, &err), 0);
    struct seizure_net *other = open_net(f, &f->config, 6);
    struct param_set *set = seizure_params(other);
    struct safetensors *st = NULL;
    assert_int_equal(optim_init(&b, set, &c, f->s, &err), 0);
    assert_int_equal(ckpt_load_model(f->model, set, f->s, false, &err), 0);
    assert_int_equal(safetensors_open(f->state, &st, &err), 0);
    assert_int_equal(ckpt_load_state(st, f->state, &b, f->s, &err), 0);
    safetensors_close(st);
    assert_int_equal(b.updates, 3);
    memcpy(set->grad, f->set->grad, (size_t)set->data_count * sizeof(float));
    for (int t = 3; t < 5; t++) {
        for (int i = 0; i < set->count; i++) {
            const struct param *p = &set->items[i];
            size_t bytes = (size_t)p->count * sizeof(float);
            if (p->kind == PARAM_BUFFER) {
                assert_memory_equal(set->buffers + p->offset, f->set->buffers + p->offset, bytes);
                if (ema > 0)
                    assert_memory_equal(a.ema_buffers + p->offset, b.ema_buffers + p->offset, bytes);
                continue;
            }
            assert_memory_equal(set->data + p->offset, f->set->data + p->offset, bytes);
            assert_memory_equal(a.m + p->offset, b.m + p->offset, bytes);
            assert_memory_equal(a.v + p->offset, b.v + p->offset, bytes);
            if (ema > 0)
                assert_memory_equal(a.ema + p->offset, b.ema + p->offset, bytes);
        }
        assert_int_equal(optim_step(&a, f->s, t, &r, &err), 0);
        assert_int_equal(optim_step(&b, f->s, t, &r, &err), 0);
    }
    optim_done(&a);
    optim_done(&b);
    seizure_free(other);
}

static void the_state_file_continues_to_the_bit(void **state) { check_state(*state, 0); }

static void with_an_average_the_model_file_holds_it_and_the_state_the_raw_weights(void **state) { check_state(*state, 0.9); }

static void the_state_of_another_model_is_refused(void **state) {
    struct fixture *f = *state;
    struct optim_config c = {.learning_rate = 1e-2, .total_steps = 10};
    struct optim a, b;
    char sha[DIGEST_HEX_SIZE];
    struct safetensors_pair pairs[] = {{"updates", "0"}};
    assert_int_equal(optim_init(&a, f->set, &c, f->s, &err), 0);
    assert_int_equal(ckpt_save_state(&(struct ckpt_file){f->state, pairs, 1}, &a, f->s, sha, &err), 0);
    struct seizure_config wider = small_config(16);
    struct seizure_net *other = open_net(f, &wider, 6);
    struct safetensors *st = NULL;
    assert_int_equal(optim_init(&b, seizure_params(other), &c, f->s, &err), 0);
    assert_int_equal(safetensors_open(f->state, &st, &err), 0);
    assert_int_equal(ckpt_load_state(st, f->state, &b, f->s, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "adam.m"));
    safetensors_close(st);
    optim_done(&a);
    optim_done(&b);
    seizure_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_model_file_holds_exactly_the_table, setup, teardown),
        cmocka_unit_test_setup_teardown(loading_restores_every_value_and_refreshes_packed_copies, setup, teardown),
        cmocka_unit_test_setup_teardown(files_of_another_model_are_refused_by_name_and_touch_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(another_head_may_differ_when_asked, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_or_absent_file_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(the_state_file_continues_to_the_bit, setup, teardown),
        cmocka_unit_test_setup_teardown(with_an_average_the_model_file_holds_it_and_the_state_the_raw_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(the_state_of_another_model_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
