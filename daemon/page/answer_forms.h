/* answer_forms: the forms with which people answer alarms: POST /alarms, with and without script. */
#pragma once
#include "daemon/page/page.h"

/* Acknowledge and silence, as buttons for a tile; nothing if the reader may not answer. */
void answer_forms_put_short(struct html *h, const struct page_view *v, const struct alarm *a);
/* Until when it is silent, and by whom; nothing if it is not. */
void answer_forms_put_silence(struct html *h, const struct page_view *v, const struct alarm *a);
/* With mark, note and the name of the person. next: the path to go back to. */
void answer_forms_put(struct html *h, const struct page_view *v, const struct alarm *a, const char *next);
/* An alarm as an item of a list, with these forms. */
void page_put_alarm(struct html *h, const struct page_view *v, const struct alarm *a, const char *next);
/* Standby and test of a bed. */
void answer_forms_put_bed(struct html *h, const struct page_view *v);
