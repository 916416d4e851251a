// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers in the words of DMTF's mockups, from a table and from a server by TLS (tests/fake/bmc.py)
//! that curl asks.

use super::*;
use crate::health::{Wishes, health};
use crate::system::tests::Fake;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const CHASSIS: &str = "/redfish/v1/Chassis/1U";
/// The one who may ask.
const USER: &str = "remanence";
/// With letters that curl reads in its own way.
const PASSWORD: &str = "a\"b\\ c'd#é:";
/// In the root of the machine.
const CA: &str = "ca = '/bmc/cert.pem'";

/// Resources by their paths.
type Table = BTreeMap<String, Value>;

impl Service for Table {
    fn get(&self, paths: &[String]) -> Result<Vec<Value>, Fault> {
        let found = |path: &String| self.get(path).cloned();
        let found: Option<Vec<Value>> = paths.iter().map(found).collect();
        found.ok_or_else(|| Fault::new("HTTP 404"))
    }
}

fn reference(path: &str) -> Value {
    json!({ "@odata.id": path })
}

fn list(paths: &[String]) -> Value {
    let members: Vec<Value> = paths.iter().map(|path| reference(path)).collect();
    json!({ "Name": "Collection", "Members@odata.count": members.len(), "Members": members })
}

fn supply(bay: usize, state: &str, health: Option<&str>, input: &str) -> Value {
    json!({
        "@odata.type": "#PowerSupply.v1_5_0.PowerSupply",
        "@odata.id": format!("{CHASSIS}/PowerSubsystem/PowerSupplies/Bay{bay}"),
        "Id": format!("Bay{bay}"),
        "Name": format!("Power Supply Bay {bay}"),
        "Status": { "State": state, "Health": health },
        "LineInputStatus": input,
        "PowerCapacityWatts": 400,
        "OutputRails": [{ "NominalVoltage": 12, "PhysicalContext": "SystemBoard" }],
        "Links": { "Outlet": { "@odata.id": "https://pdu/redfish/v1/PowerEquipment" } },
    })
}

fn well(bay: usize) -> Value {
    supply(bay, "Enabled", Some("OK"), "Normal")
}

/// A service with one chassis.
fn chassis(more: Value) -> Table {
    let mut chassis = json!({ "Id": "1U", "Name": "Computer System Chassis" });
    let more = more.as_object().unwrap().clone();
    chassis.as_object_mut().unwrap().extend(more);
    let root = json!({ "Id": "RootService", "Chassis": reference("/redfish/v1/Chassis") });
    Table::from([
        (ROOT.to_owned(), root),
        (
            "/redfish/v1/Chassis".to_owned(),
            list(&[CHASSIS.to_owned()]),
        ),
        (CHASSIS.to_owned(), chassis),
    ])
}

/// With these supplies, by the newer resource.
fn rack(supplies: &[Value]) -> Table {
    let subsystem = format!("{CHASSIS}/PowerSubsystem");
    let bays = format!("{subsystem}/PowerSupplies");
    let mut table = chassis(json!({
        "PowerSubsystem": reference(&subsystem), "Power": reference("/none"),
    }));
    let group = json!({ "RedundancyType": "Failover", "MinNeededInGroup": 1,
        "Status": { "State": "UnavailableOffline", "Health": "OK" } });
    table.insert(
        subsystem,
        json!({ "Id": "PowerSubsystem", "PowerSupplies": reference(&bays),
        "PowerSupplyRedundancy": [group] }),
    );
    let names = supplies
        .iter()
        .map(|one| one["@odata.id"].as_str().unwrap().to_owned());
    let names: Vec<String> = names.collect();
    table.insert(bays, list(&names));
    table.extend(names.into_iter().zip(supplies.iter().cloned()));
    table
}

/// With these supplies, by the older one.
fn older(supplies: &[Value], redundancy: &Value) -> Table {
    let power = format!("{CHASSIS}/Power");
    let mut table = chassis(json!({ "Power": reference(&power) }));
    let value = json!({ "Id": "Power", "PowerSupplies": supplies, "Redundancy": redundancy });
    table.insert(power, value);
    table
}

fn found(table: &Table) -> Found {
    match ask(table) {
        Ok(supplies) => supplies.found(),
        Err(why) => Found::Bad(why.to_string()),
    }
}

fn bad(text: &str) -> Found {
    Found::Bad(text.to_owned())
}

#[test]
fn supplies_that_are_well_are_good() {
    assert_eq!(found(&rack(&[well(1), well(2)])), Found::Good);
    let spare = supply(2, "StandbyOffline", Some("OK"), "Normal");
    let bay = supply(3, "Absent", None, "Normal");
    assert_eq!(found(&rack(&[well(1), spare, bay])), Found::Good);
    let old = json!({ "MemberId": "0", "Name": "PS", "Status": { "Health": "OK" },
        "LineInputVoltage": 120, "LastPowerOutputWatts": 325 });
    assert_eq!(found(&older(&[old], &json!([]))), Found::Good);
}

#[test]
fn what_is_bad_is_named() {
    let name = "Power Supply Bay 2";
    for (state, health, input, why) in [
        ("Enabled", Some("Warning"), "Normal", "Warning"),
        (
            "Enabled",
            Some("Critical"),
            "LossOfInput",
            "Critical, LossOfInput",
        ),
        (
            "UnavailableOffline",
            Some("OK"),
            "Normal",
            "UnavailableOffline",
        ),
        ("Enabled", None, "Normal", "no health"),
        ("Enabled", Some("OK"), "OutOfRange", "OutOfRange"),
        ("Absent", Some("Critical"), "Normal", "Absent, Critical"),
        ("enabled", Some("ok"), "", "enabled, ok, "),
    ] {
        let table = rack(&[well(1), supply(2, state, health, input)]);
        assert_eq!(found(&table), bad(&format!("{name}: {why}")), "{state}");
    }
    let numbers = json!({ "Name": "x", "Status": { "State": 1, "Health": true } });
    let why = bad("x: no word, no word");
    assert_eq!(found(&older(&[numbers], &json!([]))), why);
    let group =
        json!([{ "Name": "Group", "Status": { "State": "Enabled", "Health": "Critical" } }]);
    assert_eq!(
        found(&older(&[well(1)], &group)),
        bad("Redundancy: Critical")
    );
}

#[test]
fn a_service_that_shows_no_supply_is_not_well() {
    let none = bad("the BMC shows no power supply");
    assert_eq!(found(&chassis(json!({}))), none);
    assert_eq!(found(&older(&[], &json!(null))), none);
    let bay = supply(1, "Absent", Some("OK"), "Normal");
    assert_eq!(found(&older(&[bay], &json!("x"))), none);
    assert_eq!(found(&Table::new()), bad("HTTP 404"));
    let mut table = rack(&[well(1)]);
    table.insert(ROOT.to_owned(), json!([]));
    assert_eq!(found(&table), bad("it has no list of chassis"));
    let bays = format!("{CHASSIS}/PowerSubsystem/PowerSupplies");
    for members in [
        json!(null),
        json!([{}]),
        json!([reference("https://pdu/x")]),
    ] {
        table = rack(&[well(1)]);
        table.insert(bays.clone(), json!({ "Members": members }));
        assert_eq!(found(&table), bad(&format!("no list at {bays}")));
    }
}

#[test]
fn a_list_may_have_pages_but_not_without_end() {
    let bays = format!("{CHASSIS}/PowerSubsystem/PowerSupplies");
    let page = |next: &str, bay: usize| {
        let member = format!("{bays}/Bay{bay}");
        json!({ "Members": [reference(&member)], "Members@odata.nextLink": next })
    };
    let mut table = rack(&[well(1), supply(2, "Enabled", Some("Critical"), "Normal")]);
    table.insert(bays.clone(), page("/next?$skip=1", 1));
    table.insert("/next?$skip=1".to_owned(), list(&[format!("{bays}/Bay2")]));
    assert_eq!(found(&table), bad("Power Supply Bay 2: Critical"));
    table.insert("/next?$skip=1".to_owned(), page(&bays, 2));
    assert_eq!(found(&table), bad("a list has more than 8 pages"));
}

/// The older resource is read where the newer one lists nothing.
#[test]
fn an_empty_subsystem_hides_no_supply() {
    let mut table = rack(&[]);
    let failed = supply(1, "Enabled", Some("Critical"), "Normal");
    table.insert("/none".to_owned(), json!({ "PowerSupplies": [failed] }));
    assert_eq!(found(&table), bad("Power Supply Bay 1: Critical"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let names = "Status|State|Health|Name|Members|PowerSupplies|Redundancy|@odata.id|[a-z]";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "OK|Absent|Enabled|/redfish/v1/Chassis/1U|.*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Whatever else a BMC says of them, a supply with another health than OK is seen.
    #[test]
    fn a_failure_is_seen_beside_anything(
        other in any_json(), state in any_json(), health in any_json(), groups in any_json(),
    ) {
        prop_assume!(health != json!("OK"));
        let absent = state == json!("Absent") && health.is_null();
        let failed = json!({ "Name": "x", "Status": { "State": state, "Health": health } });
        let table = older(&[other, failed, well(1)], &groups);
        prop_assert!(absent || found(&table) != Found::Good);
    }

    /// What is anywhere in place of a resource never panics, and is no supply.
    #[test]
    fn any_resource_is_no_good_supply(place in 0..6_usize, other in any_json()) {
        let mut table = rack(&[well(1)]);
        let path = table.keys().nth(place).unwrap().clone();
        prop_assume!(table[&path] != other);
        table.insert(path, other);
        prop_assert_ne!(found(&table), Found::Good);
    }
}

/// A BMC that is asked by TLS.
struct Server {
    child: Child,
    port: String,
    fake: Fake,
}

fn sh(command: &str, folder: &Path) -> String {
    let done = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// A key, and a certificate of its own for a name.
fn certify(folder: &Path, name: &str) {
    let key = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    let names = format!("-subj /CN=bmc -addext subjectAltName={name}");
    sh(
        &format!("{key} {names} -keyout key.pem -out cert.pem"),
        folder,
    );
}

impl Server {
    fn start(table: &Table) -> Self {
        let fake = Fake::new();
        for program in ["timeout", "curl"] {
            let link = fake.path("bin").join(program);
            symlink(Path::new("/usr/bin").join(program), link).unwrap();
        }
        fake.write("bmc/user", format!("{USER}:{PASSWORD}"));
        certify(&fake.path("bmc"), "IP:127.0.0.1");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/bmc.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(fake.path("bmc"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let said = child.stdout.as_mut().unwrap();
        BufReader::new(said).read_line(&mut port).unwrap();
        let port = port.trim().to_owned();
        let server = Self { child, port, fake };
        server.serve(table);
        server.ask_by(&server.usual(CA));
        server
    }

    fn serve(&self, table: &Table) {
        for (path, value) in table {
            let file = format!("bmc/{}/index.json", path.trim_start_matches("/redfish/"));
            self.fake.write(&file, value.to_string());
        }
    }

    fn usual(&self, more: &str) -> String {
        let port = &self.port;
        // TOML's own text in three quotes: nothing in it is read.
        let password = format!("'''{PASSWORD}'''");
        format!(
            "url = 'https://127.0.0.1:{port}'\nuser = '{USER}'\npassword = {password}\n{more}\n"
        )
    }

    fn ask_by(&self, text: &str) {
        self.fake.write("etc/remanence/redfish.toml", text);
        self.set_mode(0o600);
    }

    fn set_mode(&self, mode: u32) {
        let file = self.fake.path("etc/remanence/redfish.toml");
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn look(&self) -> Found {
        look(&self.fake.system())
    }

    fn why(&self, text: &str) -> String {
        self.ask_by(text);
        match self.look() {
            Found::Bad(why) => why.trim_start_matches("cannot be asked: ").to_owned(),
            found => format!("{found:?}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_machine_without_the_file_has_no_such_bmc() {
    assert_eq!(look(&Fake::new().system()), Found::None);
}

/// A pass of all sources: what the kernel is told while a supply fails and when it is well again.
#[test]
fn a_supply_that_fails_is_a_condition() {
    let server = Server::start(&rack(&[well(1), well(2)]));
    server.fake.write("sys/kernel/remanence/status", "armed\n");
    server
        .fake
        .write("sys/kernel/remanence/health", "redfish ok 12 300\n");
    let wishes = Wishes {
        period_s: 300,
        low_percent: 10,
        dry_run: false,
    };
    let changes = || health(&server.fake.system(), wishes).unwrap().changes;
    assert!(changes().is_empty());
    server.serve(&rack(&[
        well(1),
        supply(2, "Enabled", Some("Critical"), "LossOfInput"),
    ]));
    let line = "redfish: bad Power Supply Bay 2: Critical, LossOfInput";
    server
        .fake
        .write("sys/kernel/remanence/health", "redfish ok 12 300\n");
    assert_eq!(changes(), [line]);
    server
        .fake
        .write("sys/kernel/remanence/health", "redfish bad 12 300 x\n");
    server.serve(&rack(&[well(1), well(2)]));
    assert_eq!(changes(), ["redfish: ok"]);
    server
        .fake
        .write("sys/kernel/remanence/health", "redfish ok 12 300\n");
    fs::remove_file(server.fake.path("etc/remanence/redfish.toml")).unwrap();
    assert_eq!(changes(), ["redfish: bad was there, and is gone"]);
}

#[test]
fn the_older_resource_is_asked_too() {
    let server = Server::start(&older(&[well(1)], &json!([])));
    assert_eq!(server.look(), Found::Good);
    let failed = supply(2, "Enabled", Some("Warning"), "Normal");
    server.serve(&older(&[well(1), failed], &json!([])));
    assert_eq!(server.look(), bad("Power Supply Bay 2: Warning"));
}

#[test]
fn only_a_bmc_that_is_known_gets_the_password() {
    let server = Server::start(&rack(&[well(1)]));
    assert_eq!(server.look(), Found::Good);
    let untrusted = "its certificate is not trusted";
    assert_eq!(server.why(&server.usual("")), untrusted);
    fs::create_dir(server.fake.path("other")).unwrap();
    certify(&server.fake.path("other"), "IP:127.0.0.1");
    let other = "ca = '/other/cert.pem'";
    assert_eq!(server.why(&server.usual(other)), untrusted);
    // Of another name.
    let renamed = server.usual(CA).replace("127.0.0.1", "localhost");
    assert_eq!(server.why(&renamed), untrusted);
    let none = server.usual("ca = '/nonexistent'");
    assert_eq!(server.why(&none), "the file of ca is no certificate");

    let pin = "openssl x509 -in cert.pem -noout -pubkey | openssl pkey -pubin -outform der \
        | openssl dgst -sha256 -binary | openssl base64";
    let pinned = |folder: &str| format!("pin = 'sha256//{}'", sh(pin, &server.fake.path(folder)));
    let why = "its key is not that of pin";
    assert_eq!(server.why(&server.usual(&pinned("other"))), why);
    assert_eq!(
        server.why(&server.usual(&format!("{CA}\n{}", pinned("other")))),
        why
    );
    server.ask_by(&server.usual(&pinned("bmc")));
    assert_eq!(server.look(), Found::Good);
    assert_eq!(
        server.why(&server.usual(&format!("{other}\n{}", pinned("bmc")))),
        untrusted
    );
}

#[test]
fn what_keeps_a_bmc_from_being_asked_is_named() {
    let server = Server::start(&rack(&[well(1)]));
    let usual = server.usual(CA);
    let wrong = usual.replace(USER, "other");
    assert_eq!(server.why(&wrong), "user or password is wrong");
    let nobody = usual.replace(&server.port, "1");
    assert_eq!(server.why(&nobody), "it cannot be reached");
    let bay = "bmc/v1/Chassis/1U/PowerSubsystem/PowerSupplies/Bay1/index.json";
    server.fake.write(bay, "{".repeat(100_000));
    let path = format!("{CHASSIS}/PowerSubsystem/PowerSupplies/Bay1");
    assert_eq!(server.why(&usual), format!("no JSON at {path}"));
    server.fake.write(bay, " ".repeat(300_000));
    assert_eq!(server.why(&usual), "an answer is too long");
    fs::remove_file(server.fake.path(bay)).unwrap();
    assert_eq!(server.why(&usual), format!("HTTP 404 at {path}"));
    server.fake.write("bmc/mode", "endless");
    assert_eq!(server.why(&usual), "an answer is too long");
    server.fake.write("bmc/mode", "slow");
    assert_eq!(server.why(&usual), "it is silent, or too slow");
    fs::remove_file(server.fake.path("bin/curl")).unwrap();
    let none = "the program curl is not there: apt install curl";
    assert_eq!(server.why(&usual), none);
}

/// All processes see the words of a program.
#[test]
fn the_password_is_in_no_word_of_a_program() {
    let server = Server::start(&rack(&[well(1)]));
    fs::remove_file(server.fake.path("bin/curl")).unwrap();
    server.fake.add_any("curl");
    assert_eq!(server.look(), bad("cannot be asked: answers are missing"));
    assert_eq!(server.fake.read("bin/log"), "curl --disable --config -\n");
}

#[test]
fn a_password_that_others_may_read_is_not_used() {
    let server = Server::start(&rack(&[well(1)]));
    let why =
        bad("redfish.toml: it has a password, and is not root's alone: chown root, chmod 600");
    for mode in [0o640, 0o604, 0o620, 0o601] {
        server.set_mode(mode);
        assert_eq!(server.look(), why, "{mode:o}");
    }
    server.set_mode(0o400);
    assert_eq!(server.look(), Found::Good);
    server.ask_by("url = 'http://bmc'\n");
    assert_eq!(server.look(), bad("redfish.toml: missing field user"));
}
