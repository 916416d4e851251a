/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Adds random entries to LDAP servers, one after another and each awaited.
 *
 *   client time BATCH BATCHES URI...   a batch to each server in turn, and a
 *                                      line `SERVER NS_PER_ENTRY` for it
 *   client count COUNT URI             a line with its number for each entry
 *                                      that was acknowledged, until the end
 *                                      or until the server is gone
 *
 * The suffix is dc=remanence, the root's name and password are as below.
 */
#include <ldap.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SUFFIX "dc=remanence"
#define ROOT_DN "cn=root," SUFFIX
#define ROOT_PASSWORD "secret"
#define SERVERS_MAX 16
#define TEXT_BYTES 128

static uint64_t mixed(uint64_t word)
{
	word += 0x9e3779b97f4a7c15;
	word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
	word = (word ^ word >> 27) * 0x94d049bb133111eb;
	return word ^ word >> 31;
}

static void expect(int rc, const char *what)
{
	if (rc == LDAP_SUCCESS)
		return;
	fprintf(stderr, "client: %s: %s\n", what, ldap_err2string(rc));
	exit(1);
}

static LDAP *server(const char *uri)
{
	struct berval password = { sizeof(ROOT_PASSWORD) - 1, ROOT_PASSWORD };
	int version = LDAP_VERSION3;
	LDAP *ld;

	expect(ldap_initialize(&ld, uri), uri);
	ldap_set_option(ld, LDAP_OPT_PROTOCOL_VERSION, &version);
	expect(ldap_sasl_bind_s(ld, ROOT_DN, LDAP_SASL_SIMPLE, &password, NULL,
				NULL, NULL),
	       "bind");
	return ld;
}

/* An attribute with one value, or with more. */
struct attribute {
	LDAPMod mod;
	char *values[5];
};

static void set(struct attribute *it, char *name, char *value)
{
	*it = (struct attribute){ .values = { value } };
	it->mod.mod_type = name;
	it->mod.mod_values = it->values;
}

static void add_suffix(LDAP *ld)
{
	struct attribute parts[3];
	LDAPMod *mods[] = { &parts[0].mod, &parts[1].mod, &parts[2].mod, NULL };
	int rc;

	set(&parts[0], "objectClass", "dcObject");
	parts[0].values[1] = "organization";
	set(&parts[1], "dc", "remanence");
	set(&parts[2], "o", "remanence");
	rc = ldap_add_ext_s(ld, SUFFIX, mods, NULL, NULL);
	expect(rc == LDAP_ALREADY_EXISTS ? LDAP_SUCCESS : rc, "suffix");
}

/* The same person for the same number. */
static int add_person(LDAP *ld, uint64_t number)
{
	unsigned long long name = mixed(number), phone = mixed(name);
	struct attribute parts[6];
	LDAPMod *mods[7] = { 0 };
	char uid[2 * sizeof(name) + 1], dn[TEXT_BYTES], surname[TEXT_BYTES];
	char mail[TEXT_BYTES], telephone[TEXT_BYTES];

	snprintf(uid, sizeof(uid), "%016llx", name);
	snprintf(dn, sizeof(dn), "uid=%s," SUFFIX, uid);
	snprintf(surname, sizeof(surname), "Person %llu", name % 10000);
	snprintf(mail, sizeof(mail), "%s@example.org", uid);
	snprintf(telephone, sizeof(telephone), "+%011llu",
		 phone % 100000000000ull);
	set(&parts[0], "objectClass", "inetOrgPerson");
	set(&parts[1], "uid", uid);
	set(&parts[2], "cn", uid);
	set(&parts[3], "sn", surname);
	set(&parts[4], "mail", mail);
	set(&parts[5], "telephoneNumber", telephone);
	for (int i = 0; i < 6; i++)
		mods[i] = &parts[i].mod;
	return ldap_add_ext_s(ld, dn, mods, NULL, NULL);
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int time_batches(uint64_t batch, uint64_t batches, int count,
			char **uris)
{
	LDAP *servers[SERVERS_MAX];

	if (count > SERVERS_MAX || batch == 0)
		return 2;
	for (int i = 0; i < count; i++) {
		servers[i] = server(uris[i]);
		add_suffix(servers[i]);
	}
	for (uint64_t round = 0; round < batches; round++) {
		for (int i = 0; i < count; i++) {
			double begin = now_ns();

			for (uint64_t one = 0; one < batch; one++)
				expect(add_person(servers[i],
						  round * batch + one),
				       uris[i]);
			printf("%d %.1f\n", i,
			       (now_ns() - begin) / (double)batch);
		}
	}
	for (int i = 0; i < count; i++)
		ldap_unbind_ext_s(servers[i], NULL, NULL);
	return 0;
}

static int count_acknowledged(uint64_t count, const char *uri)
{
	LDAP *ld = server(uri);

	add_suffix(ld);
	for (uint64_t number = 0; number < count; number++) {
		int rc = add_person(ld, number);

		if (rc == LDAP_SERVER_DOWN)
			return 0;
		expect(rc, uri);
		printf("%016llx\n", (unsigned long long)mixed(number));
		fflush(stdout);
	}
	ldap_unbind_ext_s(ld, NULL, NULL);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 5 && strcmp(argv[1], "time") == 0)
		return time_batches(strtoull(argv[2], NULL, 0),
				    strtoull(argv[3], NULL, 0), argc - 4,
				    argv + 4);
	if (argc == 4 && strcmp(argv[1], "count") == 0)
		return count_acknowledged(strtoull(argv[2], NULL, 0), argv[3]);
	fprintf(stderr, "usage: client time BATCH BATCHES URI... | "
			"count COUNT URI\n");
	return 2;
}
