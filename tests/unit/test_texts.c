#include "daemon/rpc/texts.h"

#include "brr/v1/burst.pb-c.h"
#include "brr/v1/jobs.pb-c.h"
#include "brr/v1/stream.pb-c.h"
#include "unit/cmocka_all.h"

static char latin1[] = "M\xfcller.edf", cut[] = "na\xc3", mixed[] = "\xe2\x82\xac \x80\xf0\x9f", fine[] = "Zo\xc3\xab";

static void packed_texts_are_repaired_in_place(void **state) {
    Brr__V1__Job jobs[2] = {BRR__V1__JOB__INIT, BRR__V1__JOB__INIT}, *list[] = {&jobs[0], &jobs[1]};
    Brr__V1__Figure figure = BRR__V1__FIGURE__INIT, *figures[] = {&figure};
    Brr__V1__Progress progress = BRR__V1__PROGRESS__INIT;
    Brr__V1__ListJobsResponse out = BRR__V1__LIST_JOBS_RESPONSE__INIT;
    uint8_t bytes[1000];
    (void)state;
    figure.name = mixed;
    figure.value = 0.5;
    progress.figures = figures;
    progress.n_figures = 1;
    progress.step = INT64_MAX;
    jobs[0].name = latin1;
    jobs[0].reason = cut;
    jobs[1].name = fine;
    jobs[1].progress = &progress;
    out.jobs = list;
    out.n_jobs = 2;
    size_t len = brr__v1__list_jobs_response__pack(&out, bytes);
    assert_true(len < sizeof bytes);
    assert_non_null(texts_bad_field(&out.base));
    texts_repair(out.base.descriptor, bytes, len);
    Brr__V1__ListJobsResponse *in = brr__v1__list_jobs_response__unpack(NULL, len, bytes);
    assert_non_null(in);
    assert_null(texts_bad_field(&in->base));
    assert_string_equal(in->jobs[0]->name, "M?ller.edf");
    assert_string_equal(in->jobs[0]->reason, "na?");
    assert_string_equal(in->jobs[1]->name, fine);
    assert_string_equal(in->jobs[1]->progress->figures[0]->name, "\xe2\x82\xac ???");
    assert_true(in->jobs[1]->progress->figures[0]->value == 0.5 && in->jobs[1]->progress->step == INT64_MAX);
    brr__v1__list_jobs_response__free_unpacked(in, NULL);
}

static void bytes_and_texts_that_are_fine_stay_as_they_are(void **state) {
    Brr__V1__ClientMessage m = BRR__V1__CLIENT_MESSAGE__INIT;
    Brr__V1__Chunk chunk = BRR__V1__CHUNK__INIT;
    uint8_t samples[256], before[600], after[600];
    (void)state;
    for (int i = 0; i < 256; i++)
        samples[i] = (uint8_t)i;
    chunk.data.data = samples;
    chunk.data.len = sizeof samples;
    chunk.samples = -1;
    m.kind_case = BRR__V1__CLIENT_MESSAGE__KIND_CHUNK;
    m.chunk = &chunk;
    size_t len = brr__v1__client_message__pack(&m, before);
    memcpy(after, before, len);
    texts_repair(m.base.descriptor, after, len);
    assert_memory_equal(before, after, len);
    for (size_t n = 0; n < len; n++) /* a message that ends early */
        texts_repair(m.base.descriptor, after, n);
    assert_memory_equal(before, after, len);
}

static void *unpacked(struct arena *arena, const ProtobufCMessage *m, struct err *err) {
    const size_t len = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(len + 1);
    protobuf_c_message_pack(m, bytes);
    *err = (struct err){0};
    void *message = texts_unpack(arena, m->descriptor, bytes, len, err);
    free(bytes);
    return message;
}

/* Also in a message within another one, and whatever the method. */
static void a_repeated_field_has_at_most_so_many_elements(void **state) {
    Brr__V1__ListJobsRequest in = BRR__V1__LIST_JOBS_REQUEST__INIT;
    Brr__V1__SubmitRequest submit = BRR__V1__SUBMIT_REQUEST__INIT;
    Brr__V1__JobFile file = BRR__V1__JOB_FILE__INIT;
    Brr__V1__InjectRequest inject = BRR__V1__INJECT_REQUEST__INIT;
    Brr__V1__JobState states[TEXTS_MAX_REPEATED + 1] = {0};
    char *texts[TEXTS_MAX_REPEATED + 1];
    uint32_t ids[4 * TEXTS_MAX_REPEATED] = {0};
    struct arena arena;
    struct err err;
    (void)state;
    arena_init(&arena, 1 << 20);
    in.states = states;
    in.n_states = TEXTS_MAX_REPEATED;
    assert_non_null(unpacked(&arena, &in.base, &err));
    in.n_states++;
    assert_null(unpacked(&arena, &in.base, &err));
    assert_int_equal(err.code, ERR_INVALID);
    assert_non_null(strstr(err.message, "states has more than 1024"));
    for (int i = 0; i <= TEXTS_MAX_REPEATED; i++)
        texts[i] = fine;
    submit.file = &file;
    file.overrides = texts;
    file.n_overrides = TEXTS_MAX_REPEATED + 1;
    assert_null(unpacked(&arena, &submit.base, &err));
    assert_non_null(strstr(err.message, "overrides has more"));
    inject.id = ids;
    inject.n_id = sizeof ids / sizeof *ids;
    assert_non_null(unpacked(&arena, &inject.base, &err));
    arena_done(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_texts_are_repaired_in_place),
        cmocka_unit_test(bytes_and_texts_that_are_fine_stay_as_they_are),
        cmocka_unit_test(a_repeated_field_has_at_most_so_many_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
