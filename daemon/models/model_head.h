/* model_head: tells from the start of an object whether it is a model, before the whole object is fetched. */
#pragma once
#include "store/store.h"

/* Reads the header of the object, which may be of any kind of model: INVALID if it is none. Small objects are not looked at, since
 * fetching them costs no more. Blocks; any thread. Other errors: those of the store. */
int model_head_check(struct store *store, const struct store_item *item, const struct store_watch *watch, struct err *err);
