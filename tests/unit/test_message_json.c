#include "base/base.h"
#include "brr/v1/admin.pb-c.h"
#include "brr/v1/alarms.pb-c.h"
#include "brr/v1/checkpoints.pb-c.h"
#include "brr/v1/jobs.pb-c.h"
#include "brr/v1/journal.pb-c.h"
#include "brr/v1/sessions.pb-c.h"
#include "proto/json.h"
#include "unit/cmocka_all.h"

/* The object with these fields of the message, NULL: all; the text lives until the next call. */
static const char *print(const ProtobufCMessage *message, const char *fields) {
    static char text[4000];
    struct str out;
    struct json_writer w;
    str_init(&out, sizeof text);
    json_writer_init(&w, &out);
    json_begin_object(&w, NULL);
    assert_true(message_json(&w, message, fields));
    json_end(&w, '}');
    str_copy(text, sizeof text, str_cstr(&out));
    str_done(&out);
    return text;
}

static void fields_come_in_the_order_of_the_list_under_their_member_names(void **state) {
    (void)state;
    Brr__V1__Job job = BRR__V1__JOB__INIT;
    job.id = (char *)"7";
    job.attempts = 2;
    job.created_ms = 1700000000000;
    job.energy_joules = NAN;
    assert_string_equal(print(&job.base, "created_ms job=id attempts energy_joules"),
                        "{\"created_ms\":1700000000000,\"job\":\"7\",\"attempts\":2,\"energy_joules\":null}");
}

static void empty_texts_are_null_only_where_the_list_says_so(void **state) {
    (void)state;
    Brr__V1__Job job = BRR__V1__JOB__INIT;
    assert_string_equal(print(&job.base, "owner? reason"), "{\"owner\":null,\"reason\":\"\"}");
    job.owner = (char *)"uid:1";
    assert_string_equal(print(&job.base, "by=owner?"), "{\"by\":\"uid:1\"}");
}

static void messages_within_are_objects_and_absent_ones_are_left_out(void **state) {
    (void)state;
    Brr__V1__Job job = BRR__V1__JOB__INIT;
    Brr__V1__JobFile file = BRR__V1__JOB_FILE__INIT;
    char *overrides[] = {(char *)"a=1", (char *)"b=2"};
    assert_string_equal(print(&job.base, "file(name overrides) kind"), "{\"kind\":\"\"}");
    job.file = &file;
    assert_string_equal(print(&job.base, "file(name overrides) kind"), "{\"file\":{\"name\":\"\",\"overrides\":[]},\"kind\":\"\"}");
    file.overrides = overrides;
    file.n_overrides = 2;
    assert_string_equal(print(&job.base, "file(overrides)"), "{\"file\":{\"overrides\":[\"a=1\",\"b=2\"]}}");
}

static void repeated_messages_are_arrays_or_one_object(void **state) {
    (void)state;
    Brr__V1__Device device = BRR__V1__DEVICE__INIT;
    Brr__V1__DeviceReading warm = BRR__V1__DEVICE_READING__INIT, *readings[] = {&warm};
    Brr__V1__Device *devices[] = {&device};
    Brr__V1__DevicesResponse all = BRR__V1__DEVICES_RESPONSE__INIT;
    warm.name = (char *)"celsius";
    warm.value = 41.5;
    assert_string_equal(print(&device.base, "health=readings{name value}"), "{\"health\":{}}");
    device.readings = readings;
    device.n_readings = 1;
    all.devices = devices;
    all.n_devices = 1;
    assert_string_equal(print(&all.base, "devices(health=readings{name value} free_bytes)"),
                        "{\"devices\":[{\"health\":{\"celsius\":41.5},\"free_bytes\":0}]}");
}

static void states_and_texts_of_json_and_members_of_a_message(void **state) {
    (void)state;
    Brr__V1__Job job = BRR__V1__JOB__INIT;
    Brr__V1__Progress progress = BRR__V1__PROGRESS__INIT;
    job.state = BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED;
    assert_string_equal(print(&job.base, "state result=result_json!{} progress[step steps] energy_joules~"),
                        "{\"state\":\"succeeded\",\"result\":{},\"energy_joules\":null}");
    job.progress = &progress;
    job.energy_joules = 2.5;
    job.result_json = (char *)"[1,2]";
    progress.step = 3;
    assert_string_equal(print(&job.base, "result=result_json!{} progress[step steps] energy_joules~ attempts"),
                        "{\"result\":[1,2],\"step\":3,\"steps\":0,\"energy_joules\":2.5,\"attempts\":0}");
    job.result_json = (char *)"no JSON";
    assert_string_equal(print(&job.base, "result_json!null"), "{\"result_json\":null}");
}

static void a_wrong_word_is_told_and_the_others_are_there(void **state) {
    static const char *const wrong[] = {"id nothing owner", "id owner state{id owner}", "id file(nothing) owner",
                                        "id progress{step} owner", "id attempts(x) owner"};
    (void)state;
    Brr__V1__Job job = BRR__V1__JOB__INIT;
    Brr__V1__JobFile file = BRR__V1__JOB_FILE__INIT;
    job.file = &file;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        OWNED(str_done) struct str out = str_of(1000);
        struct json_writer w = json_to(&out);
        json_begin_object(&w, NULL);
        assert_false(message_json(&w, &job.base, wrong[i]));
        json_end(&w, '}');
        assert_non_null(strstr(str_cstr(&out), "\"id\":\"\""));
        assert_non_null(strstr(str_cstr(&out), "\"owner\":\"\""));
    }
}

/* Every message that has no values, of all methods and of those within it: each field is there under its name, once. */
static void look_at_type(const ProtobufCMessageDescriptor *type, int depth) {
    OWNED_MEMORY ProtobufCMessage *empty = malloc(type->sizeof_message);
    OWNED_POINTER(json_free) struct json *json = NULL;
    struct err err;
    unsigned shown = 0;
    protobuf_c_message_init(type, empty);
    const char *text = print(empty, NULL);
    assert_int_equal(json_parse(text, strlen(text), type->name, &json, &err), 0);
    for (unsigned i = 0; i < type->n_fields; i++) {
        const bool other = type->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF; /* none of them is set */
        assert_int_equal(json_get(json, type->fields[i].name) != NULL, !other);
        shown += !other;
        if (type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE && depth)
            look_at_type(type->fields[i].descriptor, depth - 1);
    }
    assert_int_equal(json_count(json), shown);
}

static void every_field_of_every_message_is_printed(void **state) {
    static const ProtobufCServiceDescriptor *const services[] = {
        &brr__v1__admin__descriptor,   &brr__v1__alarms__descriptor,   &brr__v1__checkpoints__descriptor,
        &brr__v1__jobs__descriptor,    &brr__v1__journal__descriptor,  &brr__v1__models__descriptor,
        &brr__v1__metrics__descriptor, &brr__v1__sessions__descriptor, &brr__v1__stream__descriptor};
    (void)state;
    for (size_t i = 0; i < sizeof services / sizeof *services; i++)
        for (unsigned k = 0; k < services[i]->n_methods; k++) {
            look_at_type(services[i]->methods[k].input, 4);
            look_at_type(services[i]->methods[k].output, 4);
        }
}

static void of_a_oneof_the_set_member_alone_is_there(void **state) {
    (void)state;
    Brr__V1__SessionUpdate update = BRR__V1__SESSION_UPDATE__INIT;
    Brr__V1__Provisional newest = BRR__V1__PROVISIONAL__INIT;
    float p = 1;
    newest.probabilities = (ProtobufCBinaryData){sizeof p, (uint8_t *)&p};
    newest.first_sample = 7;
    assert_string_equal(print(&update.base, NULL), "{\"missed\":0}");
    update.kind_case = BRR__V1__SESSION_UPDATE__KIND_PROVISIONAL;
    update.provisional = &newest;
    assert_non_null(strstr(print(&update.base, NULL), "{\"provisional\":{\"first_sample\":7,"));
    assert_non_null(strstr(print(&update.base, NULL), "\"probabilities\":\"AACAPw==\""));
    assert_null(strstr(print(&update.base, NULL), "\"info\""));
}

static void numbers_that_a_reader_would_take_for_others_are_texts(void **state) {
    (void)state;
    Brr__V1__Job job = BRR__V1__JOB__INIT;
    job.created_ms = (INT64_C(1) << 53) - 1;
    job.started_ms = INT64_C(1) << 53;
    job.finished_ms = INT64_MIN;
    job.energy_joules = (double)INFINITY;
    job.state = (Brr__V1__JobState)99;
    assert_string_equal(print(&job.base, "created_ms started_ms finished_ms energy_joules state"),
                        "{\"created_ms\":9007199254740991,\"started_ms\":\"9007199254740992\",\"finished_ms\":"
                        "\"-9223372036854775808\",\"energy_joules\":null,\"state\":99}");
}

static void bytes_are_base64(void **state) {
    static const char *const expected[] = {"", "AA==", "AP8=", "AP8Q", "AP8Qgw=="};
    uint8_t data[] = {0x00, 0xff, 0x10, 0x83};
    (void)state;
    for (size_t n = 0; n <= sizeof data; n++) {
        Brr__V1__Chunk chunk = BRR__V1__CHUNK__INIT;
        char text[40];
        chunk.data = (ProtobufCBinaryData){n, data};
        str_format(text, sizeof text, "{\"data\":\"%s\"}", expected[n]);
        assert_string_equal(print(&chunk.base, "data"), text);
    }
}

static void texts_of_strangers_stay_texts(void **state) {
    static char text[] = "</script><img src=x onerror=alert(1)>\"'\\\n\x01\xff\xe2\x80\xae";
    OWNED_POINTER(json_free) struct json *json = NULL;
    struct err err;
    (void)state;
    Brr__V1__BedAlarm alarm = BRR__V1__BED_ALARM__INIT;
    alarm.bed = text;
    const char *printed = print(&alarm.base, NULL);
    assert_int_equal(json_parse(printed, strlen(printed), "printed", &json, &err), 0);
    assert_string_equal(json_str(json_get(json, "bed"), ""),
                        "</script><img src=x onerror=alert(1)>\"'\\\n\x01\xef\xbf\xbd\xe2\x80\xae");
}

/* A type whose messages have one of themselves. */
struct nested {
    ProtobufCMessage base;
    struct nested *inner;
    struct nested **list;
    size_t n_list;
};
static const ProtobufCMessageDescriptor nested_type;
static const ProtobufCFieldDescriptor nested_fields[] = {{.name = "inner",
                                                          .id = 1,
                                                          .type = PROTOBUF_C_TYPE_MESSAGE,
                                                          .offset = offsetof(struct nested, inner),
                                                          .descriptor = &nested_type},
                                                         {.name = "list",
                                                          .id = 2,
                                                          .label = PROTOBUF_C_LABEL_REPEATED,
                                                          .type = PROTOBUF_C_TYPE_MESSAGE,
                                                          .quantifier_offset = offsetof(struct nested, n_list),
                                                          .offset = offsetof(struct nested, list),
                                                          .descriptor = &nested_type}};
static const ProtobufCMessageDescriptor nested_type = {
    .name = "nested", .sizeof_message = sizeof(struct nested), .n_fields = 2, .fields = nested_fields};

static void messages_below_a_depth_are_null_and_a_long_text_is_cut(void **state) {
    struct nested ring = {.base = {.descriptor = &nested_type}}, *list[] = {&ring};
    OWNED_POINTER(json_free) struct json *json = NULL;
    OWNED(str_done) struct str out = str_of(1 << 20), small = str_of(100);
    struct json_writer w = json_to(&out), cut = json_to(&small);
    struct err err;
    int depth = 0;
    (void)state;
    ring.inner = &ring; /* it has itself */
    json_begin_object(&w, NULL);
    assert_true(message_json(&w, &ring.base, NULL));
    json_end(&w, '}');
    assert_true(str_ok(&out));
    assert_int_equal(json_parse(str_cstr(&out), out.len, "ring", &json, &err), 0);
    for (const struct json *at = json; json_kind(at) == JSON_KIND_OBJECT; at = json_get(at, "inner"))
        depth++;
    assert_int_equal(depth, JSON_DEPTH);
    ring.list = list;
    ring.n_list = 1; /* twice: 2^32 messages, of which the text has room for a few */
    json_begin_object(&cut, NULL);
    assert_true(message_json(&cut, &ring.base, NULL));
    json_end(&cut, '}');
    assert_false(str_ok(&small));
    assert_in_range(small.len, 1, 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_and_texts_of_json_and_members_of_a_message),
        cmocka_unit_test(fields_come_in_the_order_of_the_list_under_their_member_names),
        cmocka_unit_test(empty_texts_are_null_only_where_the_list_says_so),
        cmocka_unit_test(messages_within_are_objects_and_absent_ones_are_left_out),
        cmocka_unit_test(repeated_messages_are_arrays_or_one_object),
        cmocka_unit_test(a_wrong_word_is_told_and_the_others_are_there),
        cmocka_unit_test(every_field_of_every_message_is_printed),
        cmocka_unit_test(of_a_oneof_the_set_member_alone_is_there),
        cmocka_unit_test(numbers_that_a_reader_would_take_for_others_are_texts),
        cmocka_unit_test(bytes_are_base64),
        cmocka_unit_test(texts_of_strangers_stay_texts),
        cmocka_unit_test(messages_below_a_depth_are_null_and_a_long_text_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
