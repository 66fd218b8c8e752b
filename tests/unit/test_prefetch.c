#include "corpus_fixture.h"
#include "unit/cmocka_all.h"
#include "windows/prefetch.h"
#include "windows/sampler.h"

static char folder[4096], root[4200], cache[4200];
static struct manifest *corpus;
static struct sampler *sampler, *reference;

static int set_up(void **state) {
    (void)state;
    static const uint8_t role[5] = {1, 1, 1, 1, 1};
    const struct balance_config balance = {0.5, 2.5, true, 0, 0};
    corpus_make(folder, root, cache);
    struct manifest_config config = corpus_config(root, cache);
    return manifest_open(&config, NULL, NULL, &corpus, NULL) || sampler_new(corpus, role, &balance, 11, &sampler, NULL) ||
           sampler_new(corpus, role, &balance, 11, &reference, NULL);
}

static int tear_down(void **state) {
    (void)state;
    sampler_free(sampler);
    sampler_free(reference);
    manifest_close(corpus);
    fixture_remove(folder);
    return 0;
}

static struct prefetch_config settings(int batch_size, int workers, int depth) {
    return (struct prefetch_config){
        .batch_size = batch_size, .workers = workers, .depth = depth, .window = CORPUS_WINDOW, .channels = 19};
}

/* A batch holds just what window_read gives for its place in the order. */
static void check(const struct batch *b) {
    static float x[CORPUS_WINDOW * 19];
    static uint8_t labels[CORPUS_WINDOW];
    for (int i = 0; i < b->size; i++) {
        struct window_ref ref = sampler_at(reference, b->epoch, b->first_index + i);
        int64_t valid;
        assert_int_equal(
            window_read(manifest_entry(corpus, ref.entry)->recording, ref.start, CORPUS_WINDOW, x, labels, &valid, NULL), 0);
        assert_memory_equal(b->x + (int64_t)i * CORPUS_WINDOW * 19, x, sizeof x);
        assert_memory_equal(b->labels + (int64_t)i * CORPUS_WINDOW, labels, sizeof labels);
        assert_int_equal(b->valid[i], valid);
    }
}

static void batches_come_in_the_samplers_order_whatever_the_threads(void **state) {
    (void)state;
    static const int workers[] = {1, 2, 7};
    int64_t total = sampler_epoch_windows(sampler), per_epoch = total / 5;
    assert_true(total % 5 != 0 && per_epoch > 3);
    for (size_t w = 0; w < sizeof workers / sizeof *workers; w++)
        for (int depth = 1; depth <= 4; depth += 3) {
            struct prefetch *p = NULL;
            struct prefetch_config config = settings(5, workers[w], depth);
            assert_int_equal(prefetch_start(corpus, sampler, &config, 2, 5, &p, NULL), 0);
            int64_t epoch = 2, index = 5;
            for (int64_t k = 0; k < 3 * per_epoch; k++) {
                const struct batch *b = NULL;
                double wait = -1;
                assert_int_equal(prefetch_next(p, &b, &wait, NULL), 0);
                assert_true(wait >= 0);
                assert_int_equal(b->size, 5);
                assert_int_equal(b->epoch, epoch);
                assert_int_equal(b->first_index, index);
                check(b);
                if (k % 3 == 0)
                    usleep(300);
                prefetch_release(p, b);
                index += 5;
                if (index + 5 > total) { /* the partial batch is dropped */
                    epoch++;
                    index = 0;
                }
            }
            prefetch_stop(p);
        }
}

static void an_epoch_smaller_than_a_batch_is_kept_whole(void **state) {
    (void)state;
    struct prefetch *p = NULL;
    struct prefetch_config config = settings(1000, 2, 2);
    assert_int_equal(prefetch_start(corpus, sampler, &config, 0, 0, &p, NULL), 0);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        const struct batch *b = NULL;
        assert_int_equal(prefetch_next(p, &b, NULL, NULL), 0);
        assert_int_equal(b->size, sampler_epoch_windows(sampler));
        assert_int_equal(b->epoch, epoch);
        check(b);
        prefetch_release(p, b);
    }
    prefetch_stop(p);
}

static void batches_may_be_held_and_released_in_any_order(void **state) {
    (void)state;
    struct prefetch *p = NULL;
    struct prefetch_config config = settings(4, 2, 3);
    const struct batch *a, *b, *c, *d;
    struct err err;
    assert_int_equal(prefetch_start(corpus, sampler, &config, 0, 0, &p, NULL), 0);
    assert_int_equal(prefetch_next(p, &a, NULL, NULL), 0);
    assert_int_equal(prefetch_next(p, &b, NULL, NULL), 0);
    assert_int_equal(prefetch_next(p, &c, NULL, NULL), 0);
    assert_int_equal(prefetch_next(p, &d, NULL, &err), ERR_EXHAUSTED);
    prefetch_release(p, b);
    assert_int_equal(prefetch_next(p, &d, NULL, NULL), 0);
    assert_int_equal(d->first_index, 12);
    check(a);
    check(c);
    check(d);
    prefetch_stop(p); /* with three batches still held */
}

static int allocations;

static void *count_alloc(void *ctx, unsigned long bytes) {
    assert_ptr_equal(ctx, &allocations);
    allocations++;
    return malloc(bytes);
}

static void count_free(void *ctx, void *data) {
    assert_ptr_equal(ctx, &allocations);
    allocations--;
    free(data);
}

static void polling_tells_when_the_next_batch_is_there(void **state) {
    (void)state;
    struct prefetch_config config = settings(4, 1, 2);
    struct prefetch *p = NULL;
    const struct batch *a, *b;
    assert_int_equal(prefetch_start(corpus, sampler, &config, 0, 0, &p, NULL), 0);
    assert_true(prefetch_poll(p, 60000));
    assert_true(prefetch_poll(p, 0)); /* asking takes nothing away */
    assert_int_equal(prefetch_next(p, &a, NULL, NULL), 0);
    assert_true(prefetch_poll(p, 60000));
    assert_int_equal(prefetch_next(p, &b, NULL, NULL), 0);
    assert_int_equal(b->first_index, 4);
    assert_true(prefetch_poll(p, 0)); /* nothing will come while all are held: prefetch_next says so */
    assert_int_equal(prefetch_next(p, &b, NULL, NULL), ERR_EXHAUSTED);
    prefetch_release(p, a);
    assert_true(prefetch_poll(p, 60000));
    prefetch_stop(p);
}

static void memory_comes_from_the_callers_allocator(void **state) {
    (void)state;
    struct prefetch *p = NULL;
    struct prefetch_config config = settings(4, 2, 3);
    config.alloc = count_alloc;
    config.free = count_free;
    config.alloc_ctx = &allocations;
    assert_int_equal(prefetch_start(corpus, sampler, &config, 0, 0, &p, NULL), 0);
    assert_int_equal(allocations, 3);
    prefetch_stop(p);
    assert_int_equal(allocations, 0);
}

static void wrong_settings_are_refused(void **state) {
    (void)state;
    struct prefetch *p = NULL;
    struct prefetch_config bad[] = {settings(0, 1, 1), settings(1, 0, 1), settings(1, 1, 0), settings(1, 1, 1000),
                                    settings(1, 1, 1)};
    bad[4].channels = 18;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(prefetch_start(corpus, sampler, &bad[i], 0, 0, &p, NULL), ERR_INVALID);
    assert_null(p);
}

/* test_prefetch --bench: batches of 16 windows of 60 s from an hour, with the consumer doing nothing. */
static int bench(void) {
    struct manifest *m = NULL;
    struct sampler *s = NULL;
    struct prefetch *p = NULL;
    struct timespec a, b;
    static const uint8_t role[2] = {1, 1};
    fixture_folder(folder, sizeof folder);
    snprintf(root, sizeof root, "%s/data", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    corpus_file(root, "sub-01_eeg.edf", 3600, FIXTURE_EVENTS "100\t1000\tsz\tn/a\tn/a\tn/a\t3600\n");
    corpus_file(root, "sub-02_eeg.edf", 3600, FIXTURE_EVENTS "100\t1000\tsz\tn/a\tn/a\tn/a\t3600\n");
    struct manifest_config config = corpus_config(root, cache);
    config.window = 15360;
    config.hop = 2560;
    if (manifest_open(&config, NULL, NULL, &m, NULL) ||
        sampler_new(m, role, &(struct balance_config){1, 9, true, 0, 0}, 1, &s, NULL))
        return 1;
    for (int workers = 1; workers <= 4; workers *= 2) {
        struct prefetch_config c = {.batch_size = 16, .workers = workers, .depth = 4, .window = 15360, .channels = 19};
        if (prefetch_start(m, s, &c, 0, 0, &p, NULL))
            return 1;
        const struct batch *batch;
        int64_t windows = 0;
        for (int k = 0; k < 210; k++) {
            if (k == 10)
                clock_gettime(CLOCK_MONOTONIC, &a);
            if (prefetch_next(p, &batch, NULL, NULL))
                return 1;
            windows += k >= 10 ? batch->size : 0;
            prefetch_release(p, batch);
        }
        clock_gettime(CLOCK_MONOTONIC, &b);
        double seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
        printf("prefetch, %d readers: %.0f windows/s\n", workers, (double)windows / seconds);
        prefetch_stop(p);
    }
    sampler_free(s);
    manifest_close(m);
    fixture_remove(folder);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--bench"))
        return bench();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_come_in_the_samplers_order_whatever_the_threads),
        cmocka_unit_test(an_epoch_smaller_than_a_batch_is_kept_whole),
        cmocka_unit_test(batches_may_be_held_and_released_in_any_order),
        cmocka_unit_test(polling_tells_when_the_next_batch_is_there),
        cmocka_unit_test(memory_comes_from_the_callers_allocator),
        cmocka_unit_test(wrong_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
