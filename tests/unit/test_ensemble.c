/* Ensembles: one file of several models whose networks answer with the mean of their logits, in windows, in steps with a state for
 * each member, and in batches. */

#include "base/rng.h"
#include "detect/detector.h"
#include "detect/ensemble.h"
#include "unit/cmocka_all.h"
#include "unit/eeg_fixture.h"

enum { C = 3, WINDOW = 512, MEMBERS = 3, ROWS = 2 };

static struct err err;
static char folder[256], paths[MEMBERS + 1][512];

static void check(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}

/* Open networks of the files. */
struct nets {
    struct device *dev;
    struct stream *s;
    struct seizure_net *net[MEMBERS + 1];
};

static void write_models(enum seizure_type type, int normalize) {
    struct frontend_config frontend = {"custom:Fp1,F3,C3",          60,   {1, 70}, 1.5,   normalize,
                                       FRONTEND_REFERENCE_RECORDED, NULL, NULL,    false, false};
    struct modelfile m = {.hop = 256, .labels = "auto"};
    struct device *dev = NULL;
    struct stream *s = NULL;
    const char *members[MEMBERS];
    char sha[DIGEST_HEX_SIZE], patients[64];
    check(seizure_preset(type, "tiny", frontend_inputs(normalize, C), &m.model, &err));
    m.model.window = WINDOW;
    m.model.skip = normalize == FRONTEND_BASELINE;
    events_config_default(&m.events);
    check(modelfile_set_frontend(&m, &frontend, &err));
    check(device_open("cpu", 1, &dev, &err));
    check(stream_open(dev, STREAM_NORMAL, &s, &err));
    for (int k = 0; k < MEMBERS; k++) {
        struct seizure_net *net = NULL;
        members[k] = paths[k];
        snprintf(paths[k], sizeof paths[k], "%s/%d.safetensors", folder, k);
        snprintf(patients, sizeof patients, k == 1 ? "[]" : "[{\"salt\":\"%d\"}]", k);
        m.patients = patients;
        m.events.on = k == 1 ? 0.5 : 0.9;
        m.events.off = 0.4;
        check(seizure_new(dev, &m.model, &(struct seizure_options){.max_batch = 1, .precision = DTYPE_F32}, &net, &err));
        check(seizure_init(net, s, (uint64_t)k + 1, 0.3, &err));
        struct param_set *set = seizure_params(net);
        const struct param *head = param_find(set, "head.out.weight");
        for (int64_t i = 0; i < head->count; i++) /* starts too small to tell */
            set->data[head->offset + i] = (float)(k + 1) * 0.3f * (i % 2 ? 1 : -1);
        check(modelfile_save(paths[k], &m, net, NULL, s, sha, &err));
        seizure_free(net);
    }
    stream_close(s);
    device_close(dev);
    snprintf(paths[MEMBERS], sizeof paths[MEMBERS], "%s/all.safetensors", folder);
    check(ensemble_write(members, MEMBERS, paths[MEMBERS], sha, &err));
}

static void open_nets(struct nets *n, struct modelfile *ret) {
    check(device_open("cpu", 1, &n->dev, &err));
    check(stream_open(n->dev, STREAM_NORMAL, &n->s, &err));
    for (int k = 0; k <= MEMBERS; k++) {
        struct model_image *image = NULL;
        struct seizure_options options = {.max_batch = ROWS, .precision = DTYPE_F32};
        struct seizure_memory memory;
        check(model_image_open(paths[k], &(struct model_use){ROWS, DTYPE_F32, 0}, &image, &err));
        int64_t before, after, count;
        device_alloc_stats(n->dev, &before, &count);
        check(seizure_new(n->dev, &image->file.model, &options, &n->net[k], &err));
        device_alloc_stats(n->dev, &after, &count);
        check(seizure_memory(&image->file.model, &options, &memory, &err));
        assert_true(after - before <= memory.total);
        check(model_image_upload(image, n->net[k], n->s, &err));
        seizure_touch(n->net[k]);
        *ret = image->file;
        ret->frontend.montage = ret->montage;
        model_image_close(image);
    }
}

static void close_nets(struct nets *n) {
    for (int k = 0; k <= MEMBERS; k++)
        seizure_free(n->net[k]);
    stream_close(n->s);
    device_close(n->dev);
}

static void noise(float *x, int64_t n) {
    struct rng rng;
    rng_init(&rng, 5, RNG_SYNTH, 0);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rng_normal(&rng);
}

static void expect_mean(float logits[MEMBERS + 1][ROWS * WINDOW], int64_t n) {
    double spread = 0;
    for (int64_t i = 0; i < n; i++) {
        float mean = 0;
        for (int k = 0; k < MEMBERS; k++)
            mean += logits[k][i] / MEMBERS;
        spread = fmax(spread, fabs((double)(logits[0][i] - logits[1][i])));
        assert_true(fabsf(logits[MEMBERS][i] - mean) < 1e-4f * (1 + fabsf(mean)));
    }
    assert_true(spread > 0.05); /* the members differ */
}

static void logits_are_the_mean_of_the_members(void **state) {
    (void)state;
    static float x[ROWS * WINDOW * (2 * C + 1)], logits[MEMBERS + 1][ROWS * WINDOW];
    static const int inputs[] = {FRONTEND_WINDOW, FRONTEND_BASELINE};
    for (enum seizure_type type = SEIZURE_TYPE_UNET; type <= SEIZURE_TYPE_CAUSAL; type++)
        for (int i = 0; i < 2; i++) {
            struct nets n;
            struct modelfile m;
            write_models(type, inputs[i]);
            open_nets(&n, &m);
            assert_int_equal(m.model.members, MEMBERS);
            noise(x, ROWS * WINDOW * m.model.in_channels);
            struct tensor tx = tensor_3d(x, DTYPE_F32, ROWS, WINDOW, m.model.in_channels);
            for (int k = 0; k <= MEMBERS; k++) {
                struct tensor ty = tensor_2d(logits[k], DTYPE_F32, ROWS, WINDOW);
                check(seizure_infer(n.net[k], n.s, &tx, &ty, &err));
            }
            expect_mean(logits, ROWS * WINDOW);
            close_nets(&n);
        }
}

static void each_member_carries_its_own_state(void **state) {
    (void)state;
    static float x[ROWS * SEIZURE_STEP * 2 * C], logits[MEMBERS + 1][ROWS * WINDOW];
    float *states[MEMBERS + 1];
    struct nets n;
    struct modelfile m;
    write_models(SEIZURE_TYPE_CAUSAL, FRONTEND_ENVELOPE);
    open_nets(&n, &m);
    assert_int_equal(seizure_state_count(&m.model), MEMBERS * seizure_state_count(seizure_config(n.net[0])));
    for (int k = 0; k <= MEMBERS; k++)
        states[k] = calloc((size_t)(ROWS * seizure_state_count(seizure_config(n.net[k]))), sizeof *states[k]);
    for (int step = 0; step < 4; step++) {
        noise(x, ROWS * SEIZURE_STEP * 2 * C);
        for (int i = 0; i < ROWS * SEIZURE_STEP * 2 * C; i++)
            x[i] *= (float)(step + 1);
        struct tensor tx = tensor_3d(x, DTYPE_F32, ROWS, SEIZURE_STEP, 2 * C);
        for (int k = 0; k <= MEMBERS; k++) {
            struct tensor ty = tensor_2d(logits[k], DTYPE_F32, ROWS, SEIZURE_STEP),
                          ts = tensor_2d(states[k], DTYPE_F32, ROWS, seizure_state_count(seizure_config(n.net[k])));
            check(seizure_infer_step(n.net[k], n.s, &tx, &ts, &ty, &err));
        }
        expect_mean(logits, ROWS * SEIZURE_STEP);
    }
    for (int k = 0; k <= MEMBERS; k++)
        free(states[k]);
    close_nets(&n);
}

static void the_file_names_members_patients_and_thresholds(void **state) {
    (void)state;
    struct safetensors *st = NULL;
    struct modelfile m;
    char *patients = NULL;
    write_models(SEIZURE_TYPE_UNET, FRONTEND_WINDOW);
    check(modelfile_read(paths[MEMBERS], &m, &err));
    double log_odds = (2 * log(9) + 0) / 3; /* 0.9, 0.5, 0.9 */
    assert_true(fabs(m.events.on - 1 / (1 + exp(-log_odds))) < 1e-9 && fabs(m.events.off - 0.4) < 1e-9);
    check(modelfile_patients(paths[MEMBERS], &patients, &err));
    assert_string_equal(patients, "[{\"salt\":\"0\"},{\"salt\":\"2\"}]");
    free(patients);
    check(safetensors_open(paths[MEMBERS], &st, &err));
    assert_int_equal(strlen(safetensors_metadata(st, "brr.ensemble")), MEMBERS * 67 + 1);
    assert_non_null(safetensors_find(st, "member.2.head.out.weight"));
    safetensors_close(st);
}

static void models_that_make_no_ensemble_are_refused(void **state) {
    (void)state;
    char sha[DIGEST_HEX_SIZE], copy[600], out[600];
    struct seizure_config c;
    struct seizure_net *net = NULL;
    struct device *dev = NULL;
    write_models(SEIZURE_TYPE_UNET, FRONTEND_WINDOW);
    snprintf(copy, sizeof copy, "%s/unet.safetensors", folder);
    snprintf(out, sizeof out, "%s/no.safetensors", folder);
    assert_int_equal(rename(paths[0], copy), 0);
    write_models(SEIZURE_TYPE_CAUSAL, FRONTEND_WINDOW);
    assert_int_equal(ensemble_write((const char *[]){copy, paths[1]}, 2, out, sha, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "brr.model"));
    assert_int_equal(ensemble_write((const char *[]){paths[MEMBERS], paths[1]}, 2, out, sha, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "an ensemble"));
    assert_int_equal(ensemble_write((const char *[]){paths[1]}, 1, out, sha, &err), ERR_INVALID);
    assert_int_not_equal(access(out, F_OK), 0);
    check(seizure_preset(SEIZURE_TYPE_UNET, "tiny", C, &c, &err));
    c.members = SEIZURE_MAX_MEMBERS + 1;
    assert_int_equal(seizure_config_check(&c, &err), ERR_INVALID);
    c.members = 2;
    check(device_open("cpu", 1, &dev, &err));
    struct seizure_options training = {.max_batch = 1, .training = true, .precision = DTYPE_F32};
    assert_int_equal(seizure_new(dev, &c, &training, &net, &err), ERR_INVALID);
    device_close(dev);
}

static int set_up(void **state) {
    (void)state;
    fixture_folder(folder, sizeof folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fixture_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_the_mean_of_the_members),
        cmocka_unit_test(each_member_carries_its_own_state),
        cmocka_unit_test(the_file_names_members_patients_and_thresholds),
        cmocka_unit_test(models_that_make_no_ensemble_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
