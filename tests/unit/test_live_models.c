/* The models of live streams: whose file is read, who waits for it, and which detectors are shared. */

#include "base/base.h"
#include "skip.h"
#include "unit/live_fixture.h"

static void a_model_that_is_not_there_fails_its_stream_alone(void **state) {
    struct bench *b = *state;
    struct heard lost, one, *l = &lost;
    open_stream(b, &lost, &(struct live_open){.checkpoint = "/proc/nonexistent/model"});
    listen(b, &l, 1);
    assert_int_equal(lost.failures, 1);
    assert_int_equal(lost.err.code, ERR_NOT_FOUND);
    whole(b, &one);
    close_stream(b, &lost);
    close_stream(b, &one);
}

/* Orders that came before the file was read are answered with what was read, later ones after another look at the file. */
static void streams_wait_for_their_file_and_close_while_they_wait(void **state) {
    struct bench *b = *state;
    const struct live_open open = {
        .checkpoint = b->path, .model = "m", .labels = labels, .n_labels = CHANNELS, .rate_hz = RATE, .alarm_hop_s = -1};
    struct heard gone = {0}, first = {0}, second = {0}, *all[] = {&gone, &first, &second};
    for (int i = 0; i < 3; i++)
        all[i]->stream = live_stream_new(&open, all[i]);
    order(b, LIVE_OPEN, gone.stream);
    order(b, LIVE_OPEN, first.stream); /* while the file is being read */
    order(b, LIVE_CLOSE, gone.stream);
    listen(b, all, 3);
    assert_int_equal(gone.closed, 1);
    live_stream_free(gone.stream);
    live_order(b->live, chunk(b, first.stream, 0, SAMPLES, 0));
    run(b); /* nothing can be computed yet, and nothing hangs */
    hear_loader(b);
    listen(b, all + 1, 2);
    assert_int_equal(first.opened, 0);
    struct message *read = mailbox_wait(b->prepared, -1); /* for the one that came later */
    unlink(b->path);
    order(b, LIVE_OPEN, second.stream);
    live_order(b->live, (struct live_order *)read);
    run(b);
    listen(b, all + 1, 2);
    assert_int_equal(first.opened, 1);
    assert_true(first.at > 0);
    assert_int_equal(second.opened + second.failures, 0);
    hear_loader(b);
    listen(b, all + 1, 2);
    assert_int_equal(second.failures, 1);
    assert_int_equal(second.err.code, ERR_NOT_FOUND);
    close_stream(b, &first);
    close_stream(b, &second);
}

static void load_as(struct bench *b, enum live_order_kind kind, const char *path) {
    struct live_order *o = live_order_new(kind, NULL);
    str_copy(o->checkpoint, sizeof o->checkpoint, path);
    str_copy(o->model, sizeof o->model, "ward");
    if (kind == LIVE_LOAD)
        order_model(b, o);
    else
        live_order(b->live, o);
    struct live_report *r = next(b);
    assert_int_equal(r->err.code, 0);
    live_report_free(r);
}

static void a_model_that_made_room_while_its_file_was_looked_at_is_read_again(void **state) {
    struct bench *b = *state;
    struct heard h, *one = &h;
    char path[600];
    open_stream(b, &h, NULL);
    close_stream(b, &h);
    h = (struct heard){
        .stream = live_stream_new(
            &(struct live_open){.checkpoint = b->path, .model = "m", .labels = labels, .n_labels = CHANNELS, .rate_hz = RATE}, &h)};
    order(b, LIVE_OPEN, h.stream);
    struct live_order *unchanged = (struct live_order *)mailbox_wait(b->prepared, -1);
    assert_true(unchanged->prepared->unchanged);
    for (int i = 0; i < LIVE_MAX_MODELS; i++) { /* the last one takes the place */
        snprintf(path, sizeof path, "%s-%d", b->path, i);
        assert_int_equal(link(b->path, path), 0);
        load_as(b, LIVE_LOAD, path);
    }
    load_as(b, LIVE_UNLOAD, path);
    live_order(b->live, unchanged);
    listen(b, &one, 1);
    assert_int_equal(h.opened + h.failures, 0);
    hear_loader(b);
    listen(b, &one, 1);
    assert_int_equal(h.opened, 1);
    close_stream(b, &h);
}

static void files_of_the_same_contents_share_a_detector(void **state) {
    struct bench *b = *state;
    struct heard one, other;
    char path[600];
    snprintf(path, sizeof path, "%s-too", b->path);
    assert_int_equal(link(b->path, path), 0);
    open_stream(b, &one, NULL);
    for (int i = 0; i < 2; i++) { /* the second time its contents are known */
        open_stream(b, &other, &(struct live_open){.checkpoint = path});
        assert_ptr_equal(live_stream_model(one.stream), live_stream_model(other.stream));
        close_stream(b, &other);
    }
    close_stream(b, &one);
}

static void no_more_files_are_read_at_a_time_than_there_are_places(void **state) {
    struct bench *b = *state;
    static struct heard many[LIVE_MAX_MODELS + 1];
    struct heard *all[LIVE_MAX_MODELS + 1];
    char path[600];
    for (int i = 0; i <= LIVE_MAX_MODELS; i++) {
        snprintf(path, sizeof path, "/proc/nonexistent/%d", i);
        const struct live_open open = {.checkpoint = path, .model = "m", .labels = labels, .n_labels = CHANNELS, .rate_hz = RATE};
        many[i] = (struct heard){.stream = live_stream_new(&open, &many[i])};
        all[i] = &many[i];
        order(b, LIVE_OPEN, many[i].stream);
    }
    listen(b, all, LIVE_MAX_MODELS + 1);
    for (int i = 0; i <= LIVE_MAX_MODELS; i++)
        assert_int_equal(many[i].failures, i == LIVE_MAX_MODELS);
    assert_int_equal(many[LIVE_MAX_MODELS].err.code, ERR_EXHAUSTED);
    for (int i = 0; i < LIVE_MAX_MODELS; i++)
        hear_loader(b);
    for (int i = 0; i <= LIVE_MAX_MODELS; i++)
        close_stream(b, &many[i]);
}

/* The host of replays gets the contents of a model that serves, and needs no file for it. */
static void replays_of_a_model_that_serves_need_no_file(void **state) {
    struct bench *b = *state;
    struct heard h, *one = &h;
    load_as(b, LIVE_LOAD, b->path);
    struct live_order *served = (struct live_order *)mailbox_take(b->passed);
    assert_non_null(served);
    assert_int_equal(served->message.kind, LIVE_SERVED);
    load_as(b, LIVE_UNLOAD, b->path);
    struct live_order *unserved = (struct live_order *)mailbox_take(b->passed);
    assert_non_null(unserved);
    assert_int_equal(unserved->message.kind, LIVE_UNSERVED);
    live_order(b->live, served); /* stands in for the host of replays now */
    unlink(b->path);
    whole(b, &h);
    assert_int_equal(mailbox_count(b->prepared), 0);
    close_stream(b, &h);
    live_order(b->live, unserved);
    open_stream(b, &h, NULL);
    listen(b, &one, 1);
    assert_int_equal(h.err.code, ERR_NOT_FOUND);
    close_stream(b, &h);
}

static void a_model_beyond_the_memory_limit_fails_its_stream(void **state) {
    struct bench *b = *state;
    struct heard h, *one = &h;
    close_live(b);
    b->live = live_of(b, 1);
    open_stream(b, &h, NULL);
    listen(b, &one, 1);
    assert_int_equal(h.failures, 1);
    assert_int_equal(h.err.code, ERR_EXHAUSTED);
    close_stream(b, &h);
}

static void a_loaded_model_is_told_of_and_let_go(void **state) {
    struct bench *b = *state;
    static const enum live_order_kind kinds[] = {LIVE_LOAD, LIVE_UNLOAD};
    for (int i = 0; i < 2; i++) {
        struct live_order *o = live_order_new(kinds[i], NULL);
        str_copy(o->checkpoint, sizeof o->checkpoint, b->path);
        str_copy(o->model, sizeof o->model, "ward");
        order_model(b, o);
        struct live_report *r = next(b);
        assert_non_null(r);
        assert_int_equal(r->message.kind, i ? LIVE_UNLOADED : LIVE_LOADED);
        assert_string_equal(r->model, "ward");
        assert_int_equal(r->err.code, 0);
        if (!i)
            assert_int_equal(r->opened->info.file.hop, HOP);
        live_report_free(r);
    }
}

static void a_model_beyond_its_bound_in_bf16_computes_in_fp32_where_it_may(void **state) {
    struct bench *b = *state;
    struct device_info info;
    device_describe(b->device, &info);
    if (!info.has_bf16)
        skip_because(SKIP_HARDWARE, "this processor has no bf16");
    close_live(b);
    b->automatic = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fixture_bounded_model(b->device, b->queue, b->path, i ? 1e-12 : 0), 0);
        b->live = live_of(b, 0);
        struct live_order *o = live_order_new(LIVE_LOAD, NULL);
        str_copy(o->checkpoint, sizeof o->checkpoint, b->path);
        str_copy(o->model, sizeof o->model, "ward");
        order_model(b, o);
        struct live_report *r = next(b);
        assert_non_null(r);
        assert_int_equal(r->err.code, 0);
        assert_int_equal(r->opened->info.precision, i ? DTYPE_F32 : DTYPE_BF16);
        live_report_free(r);
        if (!i)
            close_live(b);
    }
}

int main(void) {
#define LIVE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        LIVE_TEST(streams_wait_for_their_file_and_close_while_they_wait),
        LIVE_TEST(a_model_that_made_room_while_its_file_was_looked_at_is_read_again),
        LIVE_TEST(files_of_the_same_contents_share_a_detector),
        LIVE_TEST(no_more_files_are_read_at_a_time_than_there_are_places),
        LIVE_TEST(a_model_that_is_not_there_fails_its_stream_alone),
        LIVE_TEST(replays_of_a_model_that_serves_need_no_file),
        LIVE_TEST(a_model_beyond_the_memory_limit_fails_its_stream),
        LIVE_TEST(a_model_beyond_its_bound_in_bf16_computes_in_fp32_where_it_may),
        LIVE_TEST(a_loaded_model_is_told_of_and_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
