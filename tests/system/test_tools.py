# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""ofedctrl, t3info, t3doctor and ofed-check in guests: what they say of real devices, and each cause that t3doctor knows, provoked."""

import json
import pathlib

import pytest
from conditions import unresponsive_host
from labkit import Lab, stack
from labkit.guest import Machine
from labkit.sim import Wire
from stock import address, objects, rping_client, rping_server

BIN = "/t3/bin"
# An ordinary user of the guest.
NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all"


@pytest.fixture
def tool(pair):
    """Runs a tool in guest 1: tool("t3info", "--json")."""
    return lambda name, options="", prefix="": pair.guests[1].run(f"{prefix} {BIN}/{name} {options}", 60)


def doctor(guest, options="", prefix=""):
    """What t3doctor says: check to (state, what, cure)."""
    done = guest.run(f"{prefix} {BIN}/t3doctor --json {options}", 60)
    told = json.loads(done.stdout)
    assert done.rc == (0 if told["healthy"] else 1)
    return {row["check"]: (row["state"], row["what"], row["cure"]) for row in told["checks"]}


def expect(guest, check, what, cure="", options="", prefix="", state="WRONG"):
    told = doctor(guest, options, prefix)
    assert told[check][0] == state and what in told[check][1] and cure in told[check][2], told
    return told


# t3doctor: from a bare machine to a healthy one, doing what it says


@pytest.fixture(scope="module")
def patient(suite):
    """A guest with a card and nothing loaded."""
    with Lab(guests=1, suite=suite, load="none", wires=[Wire("p", ("c0.0", "c0.1"))], name="patient") as lab:
        yield lab.guests[0]


def test_doctor_walks_a_machine_to_health(patient):
    expect(patient, "nic", "cxgb3 is not loaded", "modprobe cxgb3")
    patient.check("modprobe cxgb3")
    patient.push(pathlib.Path(__file__).parent / "guest/firmware.py", "/tmp/firmware.py", 0o755)
    patient.check("/tmp/firmware.py eth0 7.4.0")
    expect(patient, "firmware", "eth0 has firmware 7.4.0, the driver wants 7.12.0", "firmware-misc-nonfree")
    patient.check("/tmp/firmware.py eth0 7.12.0")
    told = expect(patient, "link", "are down: eth0 eth1", "ip link set eth0 up")
    assert told["firmware"][1] == "firmware 7.12.0" and told["address"][0] == "-"
    patient.check("ip link set eth1 up; ip link set eth0 up; " + stack.wait_carrier("eth0"))
    expect(patient, "address", "has an IPv4 address", "ip addr add ADDRESS/24 dev eth0")
    patient.check("ip addr add 10.0.0.1/24 dev eth0")
    # As after the installation of MLNX_OFED, which brings a core of its own.
    patient.check("""modules=/lib/modules/$(uname -r); mkdir $modules/updates
        cp $(modinfo -n ib_core) $modules/updates/ && depmod""", 60)
    expect(patient, "modules", "ib_core is not the kernel's own but /lib/modules/", "remove the other one")
    patient.check("rm -r /lib/modules/$(uname -r)/updates; depmod", 60)
    expect(patient, "modules", "there is no iw_cxgb3 for kernel 6.1.0", "dkms status")
    patient.check("cp /t3/modules/iw_cxgb3.ko /lib/modules/$(uname -r)/ && depmod", 60)
    patient.check("echo blacklist iw_cxgb3 > /etc/modprobe.d/local.conf")
    expect(patient, "modules", "/etc/modprobe.d/local.conf forbids it")
    patient.check("rm /etc/modprobe.d/local.conf")
    expect(patient, "modules", "iw_cxgb3 is not loaded", "ofedctrl -l")
    patient.check("modprobe iw_cxgb3")
    expect(patient, "device", "no verbs node", "ofedctrl -l")
    patient.check("modprobe ib_uverbs")
    expect(patient, "device", "no connection manager", "ofedctrl -l")
    patient.check(f"{BIN}/ofedctrl -l")
    expect(patient, "provider", "cxgb3.driver is missing", "libibverbs-cxgb3")
    patient.check("mkdir -p /etc/libibverbs.d && cp /t3/provider/cxgb3.driver /etc/libibverbs.d/")
    expect(patient, "provider", "libcxgb3-rdmavNN.so is missing")
    patient.check(f"cp /t3/provider/libcxgb3-rdmav34.so {stack.PROVIDERS}/libcxgb3-rdmav99.so")
    expect(patient, "provider", "is for another rdma-core: libibverbs wants rdmav34")
    patient.check(f"mv {stack.PROVIDERS}/libcxgb3-rdmav99.so {stack.PROVIDERS}/libcxgb3-rdmav34.so")
    told = doctor(patient)
    assert all(row[0] == "ok" for row in told.values()), told
    shown = patient.check(f"{BIN}/t3doctor")
    assert "This machine is fine" in shown and "WRONG" not in shown
    patient.check(f"{BIN}/ofedctrl -u")


def test_doctor_on_another_driver_and_without_a_card(patient):
    card = patient.check("basename $(readlink -f /sys/class/net/eth0/device)").strip()
    patient.check(f"modprobe cxgb3; echo {card} > /sys/bus/pci/drivers/cxgb3/unbind", 60)
    expect(patient, "nic", "cxgb3 is loaded but did not take the card", "dmesg")
    patient.check(f"echo 1 > /sys/bus/pci/devices/{card}/remove")
    told = expect(patient, "card", "there is no Chelsio T3", "lspci -d 1425:")
    assert told["nic"][0] == "-" and told["memlock"][0] == "ok"


def test_doctor_and_ofedctrl_where_modules_must_be_signed(suite):
    """What Secure Boot does to us, without EFI: the kernel's parameter is the same bolt."""
    with Lab(guests=1, suite=suite, load="nic", name="signed", machine=Machine(arguments="module.sig_enforce=1")) as lab:
        guest = lab.guests[0]
        guest.check("cp /t3/modules/iw_cxgb3.ko /lib/modules/$(uname -r)/ && depmod", 60)
        expect(guest, "signature", "iw_cxgb3 is not signed", "mokutil --import")
        done = guest.run(f"{BIN}/ofedctrl -l", 60)
        assert done.rc == 1 and "not signed with a key it knows (Secure Boot)" in done.stderr, done


# t3doctor: what is wrong on the way to another machine


def test_doctor_finds_the_way(pair):
    server, client = pair.guests
    expect(client, "connection", "nobody listens on port 7199", "rping -s", f"{address(server)} -p 7199", state="note")
    serving = rping_server(server, "-P", listen_port=7200)
    told = doctor(client, f"{address(server)} --port 7200")
    assert all(row[0] == "ok" for row in told.values()), told
    serving.kill()
    serving.wait(10)


def test_doctor_no_route_or_another_one(pair):
    client = pair.guests[1]
    expect(client, "route", "there is no route to 192.0.2.1", options="192.0.2.1")
    client.check("modprobe dummy; ip link add t3d0 type dummy; ip addr add 198.51.100.1/24 dev t3d0; ip link set t3d0 up")
    try:
        expect(client, "route", "leads from 198.51.100.1, which is not on a T3", "ip route add", "198.51.100.2")
    finally:
        client.check("ip link del t3d0")
    expect(client, "route", "is an address of this machine", "no loopback", address(client))


def test_doctor_silent_neighbours(pair):
    client = pair.guests[1]
    expect(client, "connection", "nobody answers for 10.0.0.77 (ARP)", "ping it", "10.0.0.77")
    # What a firewall does: somebody is there, and does not answer.
    with unresponsive_host(client, patience=3) as ghost:
        expect(client, "connection", "not the TCP connection to port 7174", "firewall", ghost)


def test_doctor_limits_and_rights(pair):
    client = pair.guests[1]
    expect(client, "memlock", "64 KiB of memory can be locked", "memlock unlimited", prefix=f"ulimit -l 64; {NOBODY}")
    expect(client, "memlock", "8192 KiB", "memlock unlimited", prefix=f"ulimit -l 8192; {NOBODY}", state="note")
    node = client.check(f"{BIN}/ofedctrl -q --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"devices\"][0][\"node\"])'").strip()
    mode = client.check(f"stat -c %a /dev/infiniband/{node}").strip()
    client.check(f"chmod 600 /dev/infiniband/{node}")
    try:
        expect(client, "device", f"you may not open /dev/infiniband/{node}", "0666", prefix=NOBODY)
    finally:
        client.check(f"chmod {mode} /dev/infiniband/{node}")


def test_doctor_a_pulled_cable(pair):
    client = pair.guests[1]
    client.check(f"ip link set {client.interfaces[1]} down")
    pair.sim.cable("p0", plugged=False)
    try:
        # The kernel tells programs a moment after it has lost the carrier.
        client.check(f"for try in $(seq 100); do grep -q down /sys/class/net/{client.interfaces[0]}/operstate && exit 0; sleep 0.1; done; exit 1", 40)
        expect(client, "link", f"no link on {client.interfaces[0]}", "cable")
    finally:
        pair.sim.cable("p0", plugged=True)
        client.check(f"ip link set {client.interfaces[1]} up")
        for guest in pair.guests:
            for interface in guest.interfaces:
                guest.check(stack.wait_carrier(interface), 40)


# t3info, while something is going on


def test_info_names_processes_and_what_they_have(pair, tool):
    server, client = pair.guests
    serving = rping_server(server, "-V")
    asking = rping_client(client, server, "-v -V")
    asking.expect("rdma-ping-20:", 60)
    told = json.loads(tool("t3info", "all --json").stdout)[0]
    assert told["name"] == "cxgb3_0" and "7.12.0" in told["firmware"] and told["protocol"] == "iw"
    assert [port["state"] for port in told["ports"]] == ["ACTIVE", "ACTIVE"]
    assert [port["interface"] for port in told["ports"]] == client.interfaces
    counts = objects(client)
    assert len(told["qp"]) == counts["qp"] == 1 and len(told["mr"]) == counts["mr"] and len(told["cq"]) == counts["cq"]
    qp = told["qp"][0]
    assert qp["state"] == "RTS" and qp["owner"]["name"] == "rping"
    assert client.check(f"cat /proc/{qp['owner']['pid']}/comm") == "rping\n"
    connection = next(row for row in told["cm"] if row["remote"] == f"{address(server)}:7174")
    assert connection["local"].startswith(address(client)) and connection["state"] == "CONNECT"
    text = tool("t3info", "qp cm").stdout
    assert f"{address(server)}:7174" in text and "rping" in text
    frames = tool("t3info", "--watch 0.5 --count 2").stdout
    assert frames.count("cxgb3_0: iw") == 2 and "PER SECOND" in frames
    asking.kill()
    serving.kill()
    assert [end.wait(20).rc for end in (asking, serving)] == [-9, -9]


@pytest.mark.parametrize("options, status, why", [
    ("-d cxgb3_7", 3, "there is no T3 RDMA device cxgb3_7"),
    ("--device", 2, "--device"),
    ("nonsense", 2, "nonsense"),
    ("--loud", 2, "--loud"),
    ("--watch 0.01", 2, "--watch"),
    ("-w 1 -n 0", 2, "--count"),
    ("--count 2", 2, "--watch"),
])
def test_info_refuses(tool, options, status, why):
    done = tool("t3info", options)
    assert done.rc == status and why in done.stderr and not done.stdout, done


def test_info_for_an_ordinary_user(pair, tool):
    """He sees the devices and what there is on them; keys are root's."""
    server, client = pair.guests
    serving = rping_server(client, "-P")
    for options in ("--json --device cxgb3_0", "all --json -d cxgb3_0"):
        shown = tool("t3info", options, NOBODY)
        assert shown.rc == 0 and json.loads(shown.stdout)[0]["name"] == "cxgb3_0"
    told = json.loads(tool("t3info", "cm --json", NOBODY).stdout)[0]
    assert [row["state"] for row in told["cm"]] == ["LISTEN"]
    serving.kill()
    serving.wait(10)


def test_info_watches_as_json(tool):
    lines = tool("t3info", "counters -w 0.2 -n 3 --json").stdout.splitlines()
    assert len(lines) == 3 and all(json.loads(line)[0]["name"] == "cxgb3_0" for line in lines)


def test_info_watches_on_a_terminal(pair):
    """A live screen: each picture begins at the upper left, and Ctrl-C ends it like a man who has seen enough."""
    watching = pair.guests[1].channel.start(f"exec {BIN}/t3info --watch 0.2", tty=(24, 80))
    watching.expect(r"\x1b\[H\x1b\[2Jcxgb3_0: iw(.|\n)*\x1b\[H\x1b\[2Jcxgb3_0: iw", 30)
    watching.write(b"\x03")
    assert watching.wait(20).rc == 0


# t3doctor's command line


@pytest.mark.parametrize("options, why", [("10.0.0.300", "between 0 and 255"), ("--port 0 10.0.0.1", "--port"), ("-p", "--port"), ("--loud", "--loud")])
def test_doctor_refuses(tool, options, why):
    done = tool("t3doctor", options)
    assert done.rc == 2 and why in done.stderr and not done.stdout, done


def test_doctor_can_be_brief(pair, tool):
    assert [tool("t3doctor", option).stdout for option in ("-b", "--brief")] == ["", ""]
    shown = tool("t3doctor", f"-b -p 7199 {address(pair.guests[0])}").stdout
    assert shown.startswith("connection    note   ") and len(shown.splitlines()) == 2


# ofed-check


def test_check_says_where_the_way_leads(pair, tool):
    server, client = pair.guests
    done = tool("ofed-check", address(server))
    assert (done.rc, done.stdout) == (0, f"{address(server)}: over cxgb3_0 port 1\n")
    told = json.loads(tool("ofed-check", f"--json {address(server, 1)}").stdout)
    assert told["reachable"] and told["device"] == "cxgb3_0" and told["port"] == 2
    for option in ("-q", "--quiet"):
        quiet = tool("ofed-check", f"{option} {address(server)}", NOBODY)
        assert (quiet.rc, quiet.stdout, quiet.stderr) == (0, "", "")


@pytest.mark.parametrize("options, status, why", [
    ("192.0.2.1", 3, "no route"),
    ("--timeout 500 10.0.0.77", 3, "nobody answers"),
    ("127.0.0.1", 3, "an address of this machine"),
    ("10.0.0.2", 3, "an address of this machine"),
    ("no.such.host.invalid", 1, "no.such.host.invalid: "),
    ("", 2, "address is required"),
    ("-t 0 10.0.0.1", 2, "--timeout"),
    ("--timeout soon 10.0.0.1", 2, "--timeout"),
    ("--loud 10.0.0.1", 2, "--loud"),
], ids=["no-route", "no-answer", "loopback", "own", "no-name", "nothing", "bad-timeout", "no-number", "bad-option"])
def test_check_refuses(tool, options, status, why):
    done = tool("ofed-check", options)
    assert done.rc == status and why in done.stderr and not done.stdout, done


def test_check_without_a_connection_manager(patient):
    done = patient.run(f"{BIN}/ofed-check --json 10.0.0.2", 60)
    assert done.rc == 4 and "'ofedctrl -l' loads one" in json.loads(done.stdout)["why"]


# ofedctrl


def test_control_unloads_only_what_nobody_uses(pair, tool):
    server, client = pair.guests
    serving = rping_server(client, "-P")
    refused = tool("ofedctrl", "-u")
    assert refused.rc == 4 and "rping has /dev/infiniband/" in refused.stderr, refused
    shown = tool("ofedctrl", "-q")
    assert shown.rc == 0 and "rping (" in shown.stdout and "device cxgb3_0: card 0000:01:00.0" in shown.stdout
    serving.kill()
    serving.wait(10)
    done = tool("ofedctrl", "--unload")
    assert done.rc == 0 and "iw_cxgb3: unloaded" in done.stdout, done
    assert tool("ofedctrl", "-q").rc == 3
    assert not client.check("ls /sys/class/infiniband 2>/dev/null || true").strip()
    assert tool("ofedctrl", "-l").rc == 6  # modprobe does not find it in this guest
    done = tool("ofedctrl", "-l -k /t3/modules")
    assert done.rc == 0 and "iw_cxgb3: loaded from /t3/modules/iw_cxgb3.ko" in done.stdout, done
    told = json.loads(tool("ofedctrl", "-q --json").stdout)
    assert told["loaded"] and {row["name"]: row["loaded"] for row in told["modules"]}["iw_cxgb3"]
    again = rping_server(server, "-C 5 -V")
    assert rping_client(client, server, "-C 5 -V").wait(60).rc == 0
    assert again.wait(20).rc == 0


@pytest.mark.parametrize("options, prefix, status, why", [
    ("-l", NOBODY, 5, "needs root"),
    ("-u", NOBODY, 5, "needs root"),
    ("-l -k /nowhere", "", 6, "there is no folder /nowhere"),
    ("-k /t3/modules", "", 2, "Exactly 1 option"),
    ("-l -u", "", 2, "Exactly 1 option"),
    ("-q --permanent", "", 2, "go with --load"),
    ("--own cm", "", 2, "Exactly 1 option"),
    ("-u --in-tree cm", "", 2, "go with --load"),
    ("-l --own nonsense", "", 2, "nonsense"),
    ("-l --own all --in-tree cm", "", 2, "the same part"),
    ("-q -k /t3/modules", "", 2, "goes with --load"),
    ("-l --json", "", 2, "goes with --query"),
    ("-q --loud", "", 2, "--loud"),
])
def test_control_refuses(tool, options, prefix, status, why):
    done = tool("ofedctrl", options, prefix)
    assert done.rc == status and why in done.stderr and not done.stdout, done


CHOICE = "/etc/modprobe.d/t3rdma-choice.conf"


def serving_modules(guest):
    """Which dispatcher and which manager are there: {(part, module)}."""
    told = json.loads(guest.check(f"{BIN}/ofedctrl --query --json"))
    assert told["loaded"]
    return {row["name"] for row in told["modules"] if row["loaded"]} - {"cxgb3", "iw_cxgb3"}


def rounds(server, client):
    serving = rping_server(server, "-C 3 -V")
    done = rping_client(client, server, "-C 3 -V").wait(60)
    assert done.rc == 0, done
    assert serving.wait(20).rc == 0


def test_control_chooses_whose_modules_serve(pair):
    """There and back, and rping works each time; what is not named stays as it is."""
    server, client = pair.guests
    load = f"{BIN}/ofedctrl --load --module-set /t3/modules"
    try:
        for choice, modules in (
            ("--own cm", {"ib_uverbs", "t3_rdma_cm"}),
            ("--own verbs", {"t3_uverbs", "t3_rdma_cm"}),
            ("--in-tree cm", {"t3_uverbs", "ib_uverbs", "rdma_ucm"}),
            ("", {"t3_uverbs", "ib_uverbs", "rdma_ucm"}),
            ("--own all", {"t3_uverbs", "t3_rdma_cm"}),
            ("--in-tree all", {"ib_uverbs", "rdma_ucm"}),
            ("--own verbs --in-tree cm", {"t3_uverbs", "ib_uverbs", "rdma_ucm"}),
            ("--in-tree verbs --in-tree cm", {"ib_uverbs", "rdma_ucm"}),
        ):
            said = client.check(f"{load} {choice}", 60)
            assert serving_modules(client) == modules, (choice, said)
            rounds(server, client)
    finally:
        client.check(f"{load} --in-tree all", 60)


def test_control_exchanges_nothing_that_is_used(pair, tool):
    server, client = pair.guests
    serving = rping_server(client, "-P")
    for choice in ("--own cm", "--own verbs", "--own all"):
        refused = tool("ofedctrl", f"-l -k /t3/modules {choice}")
        assert refused.rc == 4 and "rping has /dev/infiniband/rdma_cm open" in refused.stderr, refused
    assert serving_modules(client) == {"ib_uverbs", "rdma_ucm"}
    serving.kill()
    serving.wait(10)


def test_control_remembers_a_choice(pair, tool):
    client = pair.guests[1]
    try:
        assert tool("ofedctrl", "-l -k /t3/modules --own cm --permanent").rc == 0
        written = client.check(f"cat {CHOICE}")
        assert "blacklist rdma_ucm\n" in written and "softdep iw_cxgb3 post: t3_rdma_cm\n" in written and "uverbs" not in written
        assert client.run("modprobe --use-blacklist --dry-run --verbose rdma_ucm").stdout == ""
        assert tool("ofedctrl", "-l -k /t3/modules --in-tree all --permanent").rc == 0
        assert client.run(f"test -e {CHOICE}").rc == 1
    finally:
        client.check(f"rm -f {CHOICE}; {BIN}/ofedctrl -l -k /t3/modules --in-tree all", 60)
    assert serving_modules(client) == {"ib_uverbs", "rdma_ucm"}


@pytest.mark.parametrize("name", ["ofedctrl", "t3info", "t3doctor", "ofed-check"])
def test_help_and_version(tool, name):
    shown = tool(name, "--help")
    assert shown.rc == 0 and f"Usage: {name} " in shown.stdout and "--version" in shown.stdout
    assert tool(name, "-h").stdout == shown.stdout
    assert tool(name, "--version").stdout == f"{name} (t3rdma) 0.1\n"
