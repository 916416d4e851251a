/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A back end of OpenLDAP's slapd whose directory is an AVL tree in a
 * persistent heap, or in plain memory. Entries are added, read and searched;
 * slapd refuses to change or remove one.
 *
 *   database   nvheap
 *   suffix     "dc=example"
 *   region     /path       the file; made if there is none
 *   size       BYTES       of a new region
 *   policy     FoC+RL      of a new region; FoF is plain memory that outlives
 *                          the server, `none` is plain memory that does not
 *   statistics /path       written when the database is closed
 */
#include "portable.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include <ac/string.h>

#include "slap.h"
#include "slap-config.h"

#include "directory.h"

#define SIZE_BYTES_DEFAULT (256ul << 20)
#define SAMPLES_MAX ((size_t)1 << 20)

struct nvheap_info {
	char *region;
	char *policy;
	char *statistics;
	unsigned long size_bytes;
	const struct directory_kind *kind;
	struct directory *directory;
	/* One at a time: the policies but STM give no isolation. */
	ldap_pvt_thread_mutex_t mutex;
	/* What each insertion took; those past the last place are not timed. */
	uint32_t *add_ns;
	size_t added;
};

static ConfigTable nvheap_table[] = {
	{ "region", "file", 2, 2, 0, ARG_STRING | ARG_OFFSET,
	  (void *)offsetof(struct nvheap_info, region),
	  "( OLcfgCtAt:99.1 NAME 'olcNvheapRegion' "
	  "EQUALITY caseExactMatch SYNTAX OMsDirectoryString SINGLE-VALUE )",
	  NULL, NULL },
	{ "policy", "name", 2, 2, 0, ARG_STRING | ARG_OFFSET,
	  (void *)offsetof(struct nvheap_info, policy),
	  "( OLcfgCtAt:99.2 NAME 'olcNvheapPolicy' "
	  "EQUALITY caseIgnoreMatch SYNTAX OMsDirectoryString SINGLE-VALUE )",
	  NULL, NULL },
	{ "size", "bytes", 2, 2, 0, ARG_ULONG | ARG_OFFSET,
	  (void *)offsetof(struct nvheap_info, size_bytes),
	  "( OLcfgCtAt:99.3 NAME 'olcNvheapSize' "
	  "EQUALITY integerMatch SYNTAX OMsInteger SINGLE-VALUE )",
	  NULL, NULL },
	{ "statistics", "file", 2, 2, 0, ARG_STRING | ARG_OFFSET,
	  (void *)offsetof(struct nvheap_info, statistics),
	  "( OLcfgCtAt:99.4 NAME 'olcNvheapStatistics' "
	  "EQUALITY caseExactMatch SYNTAX OMsDirectoryString SINGLE-VALUE )",
	  NULL, NULL },
	{ NULL, NULL, 0, 0, 0, ARG_IGNORED, NULL, NULL, NULL, NULL },
};

static ConfigOCs nvheap_classes[] = {
	{ .co_def = "( OLcfgCtOc:99.1 NAME 'olcNvheapConfig' "
		    "DESC 'A directory in a persistent heap' "
		    "SUP olcDatabaseConfig "
		    "MAY ( olcNvheapRegion $ olcNvheapPolicy $ olcNvheapSize "
		    "$ olcNvheapStatistics ) )",
	  .co_type = Cft_Database,
	  .co_table = nvheap_table },
	{ .co_def = NULL },
};

static struct nvheap_info *info_of(BackendDB *be)
{
	return be->be_private;
}

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long long)now.tv_sec * 1000000000ull +
	       (unsigned long long)now.tv_nsec;
}

/* The value of a key as an entry of slapd's. */
static int to_entry(const struct directory_entry *found, Entry **ret_entry)
{
	EntryHeader head = { .bv = { found->value_bytes, found->value } };
	size_t table_bytes, skipped;
	char *copy;
	int rc = entry_header(&head);

	if (rc != LDAP_SUCCESS)
		return rc;
	/* A table of values comes first, then what they point into. */
	table_bytes = (size_t)head.nvals * sizeof(struct berval);
	skipped = (size_t)(head.data - found->value);
	copy = ch_malloc(table_bytes + found->value_bytes - skipped);
	memcpy(copy + table_bytes, head.data, found->value_bytes - skipped);
	head.bv.bv_val = copy;
	head.bv.bv_len = table_bytes + found->value_bytes - skipped;
	head.data = copy + table_bytes;
	return entry_decode(&head, ret_entry);
}

static void free_entry(Entry *entry)
{
	/* Its names are part of the copy that e_bv has. */
	if (!BER_BVISNULL(&entry->e_bv)) {
		BER_BVZERO(&entry->e_name);
		BER_BVZERO(&entry->e_nname);
	}
	entry_free(entry);
}

/* An LDAP result; *ret_entry is the caller's. */
static int look_up(struct nvheap_info *info, enum directory_which which,
		   const struct berval *ndn, Entry **ret_entry)
{
	struct directory_entry found = { 0 };
	int err, rc;

	ldap_pvt_thread_mutex_lock(&info->mutex);
	err = info->kind->find(info->directory, which, ndn->bv_val, ndn->bv_len,
			       &found);
	ldap_pvt_thread_mutex_unlock(&info->mutex);
	if (err == -ENOENT)
		return LDAP_NO_SUCH_OBJECT;
	if (err)
		return LDAP_OTHER;
	rc = to_entry(&found, ret_entry);
	free(found.key);
	return rc;
}

static int has_parent(struct nvheap_info *info, BackendDB *be,
		      struct berval *ndn)
{
	struct directory_entry found = { 0 };
	struct berval parent;
	int err;

	if (be_issuffix(be, ndn))
		return LDAP_SUCCESS;
	dnParent(ndn, &parent);
	err = info->kind->find(info->directory, DIRECTORY_EQUAL, parent.bv_val,
			       parent.bv_len, &found);
	free(found.key);
	if (!err)
		return LDAP_SUCCESS;
	return err == -ENOENT ? LDAP_NO_SUCH_OBJECT : LDAP_OTHER;
}

static int add_locked(struct nvheap_info *info, BackendDB *be, Entry *entry,
		      const struct berval *encoded, const char **ret_text)
{
	unsigned long long begin = now_ns();
	int rc = has_parent(info, be, &entry->e_nname), err;

	if (rc != LDAP_SUCCESS)
		return rc;
	err = info->kind->add(info->directory, entry->e_nname.bv_val,
			      entry->e_nname.bv_len, encoded->bv_val,
			      encoded->bv_len);
	if (!err) {
		if (info->add_ns && info->added < SAMPLES_MAX)
			info->add_ns[info->added] =
				(uint32_t)(now_ns() - begin);
		info->added += 1;
		return LDAP_SUCCESS;
	}
	if (err == -EEXIST)
		return LDAP_ALREADY_EXISTS;
	*ret_text = "the heap refused";
	Debug(LDAP_DEBUG_ANY, "back-nvheap: %s\n", info->kind->why());
	return err == -E2BIG || err == -ENOSPC ? LDAP_ADMINLIMIT_EXCEEDED :
						 LDAP_OTHER;
}

static int nvheap_back_add(Operation *op, SlapReply *rs)
{
	struct nvheap_info *info = info_of(op->o_bd);
	char text[SLAP_TEXT_BUFLEN];
	struct berval encoded;
	int rc = entry_schema_check(op, op->ora_e, NULL, 0, 1, NULL,
				    &rs->sr_text, text, sizeof(text));

	if (rc == LDAP_SUCCESS)
		rc = slap_add_opattrs(op, &rs->sr_text, text, sizeof(text), 1);
	if (rc == LDAP_SUCCESS) {
		entry_encode(op->ora_e, &encoded);
		ldap_pvt_thread_mutex_lock(&info->mutex);
		rc = add_locked(info, op->o_bd, op->ora_e, &encoded,
				&rs->sr_text);
		ldap_pvt_thread_mutex_unlock(&info->mutex);
		ch_free(encoded.bv_val);
	}
	rs->sr_err = rc;
	send_ldap_result(op, rs);
	slap_graduate_commit_csn(op);
	rs->sr_text = NULL; /* may point to `text` */
	return rs->sr_err;
}

static int nvheap_back_bind(Operation *op, SlapReply *rs)
{
	AttributeDescription *password = slap_schema.si_ad_userPassword;
	Entry *entry = NULL;
	Attribute *values;
	int rc;

	if (be_rootdn_bind(op, rs) != SLAP_CB_CONTINUE)
		return rs->sr_err;
	rc = look_up(info_of(op->o_bd), DIRECTORY_EQUAL, &op->o_req_ndn,
		     &entry);
	if (rc == LDAP_SUCCESS) {
		values = attr_find(entry->e_attrs, password);
		if (!values ||
		    slap_passwd_check(op, entry, values, &op->oq_bind.rb_cred,
				      &rs->sr_text) != 0)
			rc = LDAP_INVALID_CREDENTIALS;
		free_entry(entry);
	}
	if (rc == LDAP_SUCCESS)
		return rc; /* the front end answers */
	rs->sr_err = LDAP_INVALID_CREDENTIALS;
	send_ldap_result(op, rs);
	return rs->sr_err;
}

/* Send the client an entry if it is wanted. */
static int offer(Operation *op, SlapReply *rs, Entry *entry)
{
	struct berval *base = &op->o_req_ndn;
	int rc = LDAP_SUCCESS;

	if (!dnIsSuffixScope(&entry->e_nname, base, op->ors_scope) ||
	    test_filter(op, entry, op->ors_filter) != LDAP_COMPARE_TRUE)
		return rc;
	if (op->ors_slimit >= 0 && rs->sr_nentries >= op->ors_slimit)
		return LDAP_SIZELIMIT_EXCEEDED;
	rs->sr_entry = entry;
	rs->sr_attrs = op->ors_attrs;
	rs->sr_operational_attrs = NULL;
	rs->sr_flags = 0;
	rc = send_search_entry(op, rs);
	rs->sr_entry = NULL;
	return rc;
}

static int nvheap_back_search(Operation *op, SlapReply *rs)
{
	struct nvheap_info *info = info_of(op->o_bd);
	struct berval key = BER_BVNULL;
	Entry *entry = NULL;
	int rc = look_up(info, DIRECTORY_EQUAL, &op->o_req_ndn, &entry);

	if (rc == LDAP_SUCCESS && op->ors_scope == LDAP_SCOPE_BASE) {
		rc = offer(op, rs, entry);
	} else if (rc == LDAP_SUCCESS) {
		ber_str2bv("", 0, 1, &key);
		free_entry(entry);
		entry = NULL;
		while (rc == LDAP_SUCCESS && !op->o_abandon) {
			rc = look_up(info, DIRECTORY_AFTER, &key, &entry);
			if (rc != LDAP_SUCCESS)
				break;
			rc = offer(op, rs, entry);
			ber_bvreplace(&key, &entry->e_nname);
			free_entry(entry);
			entry = NULL;
		}
		if (rc == LDAP_NO_SUCH_OBJECT)
			rc = LDAP_SUCCESS; /* that was the last */
		ch_free(key.bv_val);
	}
	if (entry)
		free_entry(entry);
	if (op->o_abandon)
		return SLAPD_ABANDON;
	rs->sr_err = rc;
	send_ldap_result(op, rs);
	return rs->sr_err;
}

static int nvheap_back_get(Operation *op, struct berval *ndn, ObjectClass *oc,
			   AttributeDescription *at, int rw, Entry **ret_entry)
{
	int rc = look_up(info_of(op->o_bd), DIRECTORY_EQUAL, ndn, ret_entry);

	(void)at;
	(void)rw;
	if (rc == LDAP_SUCCESS && oc &&
	    !is_entry_objectclass_or_sub(*ret_entry, oc)) {
		free_entry(*ret_entry);
		*ret_entry = NULL;
		rc = LDAP_NO_SUCH_ATTRIBUTE;
	}
	return rc;
}

static int nvheap_back_release(Operation *op, Entry *entry, int rw)
{
	(void)op;
	(void)rw;
	free_entry(entry);
	return 0;
}

static int nvheap_db_init(BackendDB *be, ConfigReply *cr)
{
	struct nvheap_info *info = ch_calloc(1, sizeof(*info));

	(void)cr;
	info->size_bytes = SIZE_BYTES_DEFAULT;
	ldap_pvt_thread_mutex_init(&info->mutex);
	be->be_private = info;
	be->be_cf_ocs = be->bd_info->bi_cf_ocs;
	SLAP_DBFLAGS(be) |= SLAP_DBFLAG_ONE_SUFFIX;
	return 0;
}

static const struct directory_kind *kind_of(const char *policy)
{
	if (strcasecmp(policy, "none") == 0)
		return &directory_in_memory;
	if (strcasecmp(policy, "FoF") == 0)
		return &directory_in_region;
	return &directory_in_heap;
}

static int nvheap_db_open(BackendDB *be, ConfigReply *cr)
{
	struct nvheap_info *info = info_of(be);
	struct directory_setup setup = {
		.region = info->region,
		.policy = info->policy ? info->policy : "FoC+RL",
		.size_bytes = info->size_bytes,
	};
	int err;

	info->kind = kind_of(setup.policy);
	if (info->kind != &directory_in_memory && !setup.region) {
		snprintf(cr->msg, sizeof(cr->msg),
			 "back-nvheap: no region is given");
		return -1;
	}
	if (info->statistics)
		info->add_ns = ch_calloc(SAMPLES_MAX, sizeof(*info->add_ns));
	err = info->kind->open(&setup, &info->directory);
	if (err) {
		snprintf(cr->msg, sizeof(cr->msg), "back-nvheap: %s: %s",
			 setup.region ? setup.region : "memory",
			 err == -EINVAL ? "no such policy, or a bad size" :
					  info->kind->why());
		Debug(LDAP_DEBUG_ANY, "%s\n", cr->msg);
		return -1;
	}
	return 0;
}

static int by_size(const void *one, const void *other)
{
	const uint32_t *a = one, *b = other;

	return (*a > *b) - (*a < *b);
}

/* The median: a server that others interrupt has some very long ones. */
static void write_statistics(struct nvheap_info *info)
{
	size_t timed = info->added < SAMPLES_MAX ? info->added : SAMPLES_MAX;
	uint64_t count = 0;
	uint32_t median_ns = 0;
	FILE *file = fopen(info->statistics, "w");

	if (!file)
		return;
	if (info->add_ns && timed) {
		qsort(info->add_ns, timed, sizeof(*info->add_ns), by_size);
		median_ns = info->add_ns[timed / 2];
	}
	info->kind->count(info->directory, &count);
	fprintf(file, "entries %llu\nadded %zu\nadd_median_ns %u\n",
		(unsigned long long)count, info->added, median_ns);
	fclose(file);
}

static int nvheap_db_close(BackendDB *be, ConfigReply *cr)
{
	struct nvheap_info *info = info_of(be);

	(void)cr;
	if (info->directory) {
		if (info->statistics)
			write_statistics(info);
		info->kind->close(info->directory);
		info->directory = NULL;
	}
	return 0;
}

static int nvheap_db_destroy(BackendDB *be, ConfigReply *cr)
{
	struct nvheap_info *info = info_of(be);

	(void)cr;
	ldap_pvt_thread_mutex_destroy(&info->mutex);
	ch_free(info->region);
	ch_free(info->policy);
	ch_free(info->statistics);
	ch_free(info->add_ns);
	ch_free(info);
	be->be_private = NULL;
	return 0;
}

static int nvheap_back_initialize(BackendInfo *bi)
{
	static char *controls[] = { LDAP_CONTROL_MANAGEDSAIT, NULL };

	bi->bi_controls = controls;
	bi->bi_db_init = nvheap_db_init;
	bi->bi_db_config = config_generic_wrapper;
	bi->bi_db_open = nvheap_db_open;
	bi->bi_db_close = nvheap_db_close;
	bi->bi_db_destroy = nvheap_db_destroy;
	bi->bi_op_bind = nvheap_back_bind;
	bi->bi_op_search = nvheap_back_search;
	bi->bi_op_add = nvheap_back_add;
	bi->bi_entry_get_rw = nvheap_back_get;
	bi->bi_entry_release_rw = nvheap_back_release;
	bi->bi_cf_ocs = nvheap_classes;
	return config_register_schema(nvheap_table, nvheap_classes);
}

SLAP_BACKEND_INIT_MODULE(nvheap)
