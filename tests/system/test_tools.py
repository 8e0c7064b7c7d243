# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""ofedctrl, t3info, t3doctor and ofed-check in guests with devices. Each problem that t3doctor reports is provoked."""

import json
import pathlib
import re

import pytest
from conditions import unresponsive_host
from labkit import Lab, stack
from labkit.machine import Machine
from labkit.sim import Wire
from stock import address, objects, rping, rping_client, rping_server

BIN = "/t3/bin"
# An ordinary user of the guest.
ORDINARY_USER = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all"


@pytest.fixture
def tool(pair):
    """Runs a tool in guest 1: tool("t3info", "--json")."""
    return lambda name, options="", prefix="": pair.guests[1].run(f"{prefix} {BIN}/{name} {options}", 60)


def doctor(guest, options="", prefix=""):
    """The report of t3doctor: {check: (state, what, cure)}."""
    done = guest.run(f"{prefix} {BIN}/t3doctor --json {options}", 60)
    report = json.loads(done.stdout)
    assert done.rc == (0 if report["healthy"] else 1)
    return {row["check"]: (row["state"], row["what"], row["cure"]) for row in report["checks"]}


def expect(guest, check, what, cure="", options="", prefix="", state="WRONG"):
    report = doctor(guest, options, prefix)
    assert report[check][0] == state and what in report[check][1] and cure in report[check][2], report
    return report


def expect_in_report(guest, check, what, *more, **options):
    """Also in the report to send, with more about it from its inventory."""
    found = expect(guest, check, what, **options)
    guest.run(f"{BIN}/t3doctor --brief --report /tmp/doctor.txt", 60)
    text = guest.check("cat /tmp/doctor.txt")
    lines = [line for line in text.splitlines() if line.split()[:1] == [check]]
    assert len(lines) == 1 and what in lines[0], lines
    for wanted in more:
        assert re.search(wanted, text), (wanted, text)
    return found


# t3doctor: from a machine without the stack to a working one, following its suggestions


@pytest.fixture(scope="module")
def bare(suite):
    """A guest with a card and nothing loaded."""
    with Lab(guests=1, suite=suite, load="none", wires=[Wire("p", ("c0.0", "c0.1"))], name="bare") as lab:
        yield lab.guests[0]


def test_doctor_leads_from_a_bare_machine_to_a_working_one(bare):
    expect(bare, "nic", "cxgb3 is not loaded", "modprobe cxgb3")
    bare.check("modprobe cxgb3")
    bare.push(pathlib.Path(__file__).parent / "guest/firmware.py", "/tmp/firmware.py", 0o755)
    bare.check("/tmp/firmware.py eth0 7.4.0")
    expect_in_report(
        bare,
        "firmware",
        "eth0 has firmware 7.4.0, the driver requires 7.12.0",
        "7\\.4\\.0",
        cure="firmware-misc-nonfree",
    )
    bare.check("/tmp/firmware.py eth0 7.12.0")
    report = expect_in_report(bare, "link", "are down: eth0 eth1", cure="ip link set eth0 up")
    assert report["firmware"][1] == "firmware 7.12.0" and report["address"][0] == "-"
    bare.check("ip link set eth1 up; ip link set eth0 up; " + stack.wait_carrier("eth0"))
    expect(bare, "address", "has an IPv4 address", "ip addr add ADDRESS/24 dev eth0")
    bare.check("ip addr add 10.0.0.1/24 dev eth0")
    # As after the installation of MLNX_OFED, which brings a core of its own.
    bare.check(
        """modules=/lib/modules/$(uname -r); mkdir $modules/updates
        cp $(modinfo -n ib_core) $modules/updates/ && depmod""",
        60,
    )
    expect(bare, "modules", "ib_core is not the kernel's own but /lib/modules/", "remove the other one")
    bare.check("rm -r /lib/modules/$(uname -r)/updates; depmod", 60)
    expect(bare, "modules", "there is no iw_cxgb3 for kernel 6.1.0", "dkms status")
    bare.check("cp /t3/modules/iw_cxgb3.ko /lib/modules/$(uname -r)/ && depmod", 60)
    bare.check("echo blacklist iw_cxgb3 > /etc/modprobe.d/local.conf")
    expect(bare, "modules", "/etc/modprobe.d/local.conf blocks it")
    bare.check("rm /etc/modprobe.d/local.conf")
    expect(bare, "modules", "iw_cxgb3 is not loaded", "ofedctrl -l")
    bare.check("modprobe iw_cxgb3")
    expect(bare, "device", "no verbs node", "ofedctrl -l")
    bare.check("modprobe ib_uverbs")
    expect(bare, "device", "no connection manager", "ofedctrl -l")
    bare.check("modprobe ib_cm && insmod /t3/modules/t3_rdma_cm.ko reserve_tcp_ports=0")
    expect(bare, "device", "reserves no TCP ports", "echo Y", state="note")
    bare.check("rmmod t3_rdma_cm")
    bare.check(f"{BIN}/ofedctrl -l")
    expect(bare, "provider", "cxgb3.driver is missing", "libibverbs-cxgb3")
    bare.check("mkdir -p /etc/libibverbs.d && cp /t3/provider/cxgb3.driver /etc/libibverbs.d/")
    expect(bare, "provider", "libcxgb3-rdmavNN.so is missing")
    bare.check(f"cp /t3/provider/libcxgb3-rdmav34.so {stack.PROVIDERS}/libcxgb3-rdmav99.so")
    expect(bare, "provider", "is for another rdma-core: libibverbs requires rdmav34")
    bare.check(f"mv {stack.PROVIDERS}/libcxgb3-rdmav99.so {stack.PROVIDERS}/libcxgb3-rdmav34.so")
    report = doctor(bare)
    assert all(row[0] == "ok" for row in report.values()), report
    shown = bare.check(f"{BIN}/t3doctor")
    assert "No problem found" in shown and "WRONG" not in shown
    bare.check(f"{BIN}/ofedctrl -u")


EEPROM = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR)
if sys.argv[2] == "save":
    open("/tmp/vpd", "wb").write(os.pread(file, 256, 0xc00))
else:
    content = open("/tmp/vpd", "rb").read() if sys.argv[2] == "restore" else bytes(256)
    for base in (0, 0xc00):
        os.pwrite(file, content, base)
"""


def test_doctor_on_a_bad_slot_a_bad_board_and_without_offload(suite):
    """Also what the report to send has about them."""
    with Lab(
        guests=1,
        suite=suite,
        load="none",
        wires=[Wire("p", ("c0.0", "c0.1"))],
        name="odd",
        sim_options=["--lanes", "c0=4"],
    ) as lab:
        (guest,) = lab.guests
        vpd = guest.check("grep -l 0x1425 /sys/bus/pci/devices/*/vendor").strip().replace("vendor", "vpd")
        guest.push(EEPROM.encode(), "/tmp/eeprom.py")
        expect_in_report(guest, "slot", "4 PCI Express lanes of 8", cure="a slot with more lanes", state="note")
        guest.check(f"python3 /tmp/eeprom.py {vpd} save; python3 /tmp/eeprom.py {vpd} break", 60)
        expect_in_report(guest, "eeprom", "has no record of the board", cure="contacts")
        assert guest.run(f"{BIN}/t3doctor --brief --report /tmp/doctor.json", 60).rc == 1
        content = json.loads(guest.check("cat /tmp/doctor.json"))
        assert content["ends"][0]["cards"][0]["VPD"] == "has no record" and not content["passed"]
        guest.check(f"python3 /tmp/eeprom.py {vpd} restore", 60)
        guest.check(
            "modprobe cxgb3 ofld_disable=1; ip link set eth1 up; ip link set eth0 up; " + stack.wait_carrier("eth0"), 60
        )
        report = expect_in_report(guest, "offload", "loaded with ofld_disable=1", cure="/etc/modprobe.d")
        assert report["eeprom"] == ("ok", "the EEPROM describes the board", "")
        guest.run(f"{BIN}/t3doctor --report /tmp/doctor.txt", 60)
        text = guest.check("cat /tmp/doctor.txt")
        mac = guest.check("cat /sys/class/net/eth0/address").strip()
        assert "ofld_disable=1" in text and "VPD.SN" in text and "serial-1" in text and mac not in text
        guest.run(f"{BIN}/t3doctor --report /tmp/doctor.txt --personal", 60)
        assert mac in guest.check("cat /tmp/doctor.txt")
        assert guest.run(f"{BIN}/t3doctor --report /nowhere/doctor.txt", 60).rc == 1


def test_doctor_on_another_driver_and_without_a_card(bare):
    card = bare.check("basename $(readlink -f /sys/class/net/eth0/device)").strip()
    bare.check(f"modprobe cxgb3; echo {card} > /sys/bus/pci/drivers/cxgb3/unbind", 60)
    expect(bare, "nic", "cxgb3 is loaded but is not bound to the card", "dmesg")
    bare.check(f"echo 1 > /sys/bus/pci/devices/{card}/remove")
    report = expect(bare, "card", "there is no Chelsio T3", "lspci -d 1425:")
    assert report["nic"][0] == "-" and report["memlock"][0] == "ok"


def test_doctor_and_ofedctrl_where_modules_must_be_signed(suite):
    """As with Secure Boot, without EFI: the kernel's parameter has the same effect."""
    with Lab(
        guests=1, suite=suite, load="nic", name="signed", machine=Machine(arguments="module.sig_enforce=1")
    ) as lab:
        guest = lab.guests[0]
        guest.check("cp /t3/modules/iw_cxgb3.ko /lib/modules/$(uname -r)/ && depmod", 60)
        expect(guest, "signature", "iw_cxgb3 is not signed", "mokutil --import")
        done = guest.run(f"{BIN}/ofedctrl -l", 60)
        assert done.rc == 1 and "not signed with a trusted key (Secure Boot)" in done.stderr, done


# t3doctor: the connection to another machine


def test_doctor_checks_route_and_connection(pair):
    server, client = pair.guests
    expect(client, "connection", "no listener on port 7199", "rping -s", f"{address(server)} -p 7199", state="note")
    serving = rping_server(server, "-P", listen_port=7200)
    report = doctor(client, f"{address(server)} --port 7200")
    assert all(row[0] == "ok" for row in report.values()), report
    serving.kill()
    serving.wait(10)


def test_doctor_reports_wrong_routes(pair):
    client = pair.guests[1]
    expect(client, "route", "there is no route to 192.0.2.1", options="192.0.2.1")
    client.check(
        "modprobe dummy; ip link add t3d0 type dummy; ip addr add 198.51.100.1/24 dev t3d0; ip link set t3d0 up"
    )
    try:
        expect(client, "route", "source address 198.51.100.1, which is not on a T3", "ip route add", "198.51.100.2")
    finally:
        client.check("ip link del t3d0")
    expect(client, "route", "is an address of this machine", "no loopback", address(client))


def test_doctor_reports_unresponsive_hosts(pair):
    client = pair.guests[1]
    expect(client, "connection", "no ARP reply from 10.0.0.77", "ping it", "10.0.0.77")
    # As with a firewall: ARP resolves, and TCP gets no reply.
    with unresponsive_host(client, patience=3) as host:
        expect(client, "connection", "not to the TCP connection on port 7174", "firewall", host)


def test_doctor_reports_limits_and_permissions(pair):
    client = pair.guests[1]
    expect(
        client,
        "memlock",
        "64 KiB of memory can be locked",
        "memlock unlimited",
        prefix=f"ulimit -l 64; {ORDINARY_USER}",
    )
    expect(client, "memlock", "8192 KiB", "memlock unlimited", prefix=f"ulimit -l 8192; {ORDINARY_USER}", state="note")
    node = client.check(
        f'{BIN}/ofedctrl -q --json | python3 -c \'import json, sys; print(json.load(sys.stdin)["devices"][0]["node"])\''
    ).strip()
    mode = client.check(f"stat -c %a /dev/infiniband/{node}").strip()
    client.check(f"chmod 600 /dev/infiniband/{node}")
    try:
        expect(client, "device", f"you may not open /dev/infiniband/{node}", "0666", prefix=ORDINARY_USER)
    finally:
        client.check(f"chmod {mode} /dev/infiniband/{node}")


def test_doctor_reports_a_pulled_cable(pair):
    client = pair.guests[1]
    client.check(f"ip link set {client.interfaces[1]} down")
    pair.sim.cable("p0", plugged=False)
    try:
        # operstate follows the carrier with a delay.
        client.check(
            (
                f"for try in $(seq 100); do grep -q down /sys/class/net/{client.interfaces[0]}/operstate && exit 0;"
                " sleep 0.1; done; exit 1"
            ),
            40,
        )
        expect_in_report(client, "link", f"no link on {client.interfaces[0]}", cure="cable")
    finally:
        pair.sim.cable("p0", plugged=True)
        client.check(f"ip link set {client.interfaces[1]} up")
        for guest in pair.guests:
            for interface in guest.interfaces:
                guest.check(stack.wait_carrier(interface), 40)


# t3info, during traffic


def test_info_shows_processes_and_their_objects(pair, tool):
    server, client = pair.guests
    serving = rping_server(server, "-V")
    pinging = rping_client(client, server, "-v -V")
    pinging.expect("rdma-ping-20:", 60)
    report = json.loads(tool("t3info", "all --json").stdout)[0]
    assert report["name"] == "cxgb3_0" and "7.12.0" in report["firmware"] and report["protocol"] == "iw"
    assert [port["state"] for port in report["ports"]] == ["ACTIVE", "ACTIVE"]
    assert [port["interface"] for port in report["ports"]] == client.interfaces
    counts = objects(client)
    assert (
        len(report["qp"]) == counts["qp"] == 1
        and len(report["mr"]) == counts["mr"]
        and len(report["cq"]) == counts["cq"]
    )
    qp = report["qp"][0]
    assert qp["state"] == "RTS" and qp["owner"]["name"] == "rping"
    assert client.check(f"cat /proc/{qp['owner']['pid']}/comm") == "rping\n"
    connection = next(row for row in report["cm"] if row["remote"] == f"{address(server)}:7174")
    assert connection["local"].startswith(address(client)) and connection["state"] == "CONNECT"
    text = tool("t3info", "qp cm").stdout
    assert f"{address(server)}:7174" in text and "rping" in text
    frames = tool("t3info", "--watch 0.5 --count 2").stdout
    assert frames.count("cxgb3_0: iw") == 2 and "PER SECOND" in frames
    pinging.kill()
    serving.kill()
    assert [end.wait(20).rc for end in (pinging, serving)] == [-9, -9]


@pytest.mark.parametrize(
    "options, status, why",
    [
        ("-d cxgb3_7", 3, "there is no T3 RDMA device cxgb3_7"),
        ("--device", 2, "--device"),
        ("nonsense", 2, "nonsense"),
        ("--loud", 2, "--loud"),
        ("--watch 0.01", 2, "--watch"),
        ("-w 1 -n 0", 2, "--count"),
        ("--count 2", 2, "--watch"),
    ],
)
def test_info_refuses_wrong_arguments(tool, options, status, why):
    done = tool("t3info", options)
    assert done.rc == status and why in done.stderr and not done.stdout, done


def test_info_for_an_ordinary_user(pair, tool):
    """Without root it shows devices and objects, but no keys."""
    server, client = pair.guests
    serving = rping_server(client, "-P")
    for options in ("--json --device cxgb3_0", "all --json -d cxgb3_0"):
        shown = tool("t3info", options, ORDINARY_USER)
        assert shown.rc == 0 and json.loads(shown.stdout)[0]["name"] == "cxgb3_0"
    report = json.loads(tool("t3info", "cm --json", ORDINARY_USER).stdout)[0]
    assert [row["state"] for row in report["cm"]] == ["LISTEN"]
    serving.kill()
    serving.wait(10)


def test_info_watch_prints_json_lines(tool):
    lines = tool("t3info", "counters -w 0.2 -n 3 --json").stdout.splitlines()
    assert len(lines) == 3 and all(json.loads(line)[0]["name"] == "cxgb3_0" for line in lines)


def test_info_watch_on_a_terminal(pair):
    """Each screen starts at the upper left; Ctrl-C ends the program with status 0."""
    watching = pair.guests[1].channel.start(f"exec {BIN}/t3info --watch 0.2", tty=(24, 80))
    watching.expect(r"\x1b\[H\x1b\[2Jcxgb3_0: iw(.|\n)*\x1b\[H\x1b\[2Jcxgb3_0: iw", 30)
    watching.write(b"\x03")
    assert watching.wait(20).rc == 0


# t3doctor's command line


@pytest.mark.parametrize(
    "options, why",
    [("10.0.0.300", "between 0 and 255"), ("--port 0 10.0.0.1", "--port"), ("-p", "--port"), ("--loud", "--loud")],
)
def test_doctor_refuses_wrong_arguments(tool, options, why):
    done = tool("t3doctor", options)
    assert done.rc == 2 and why in done.stderr and not done.stdout, done


def test_doctor_brief_output(pair, tool):
    assert [tool("t3doctor", option).stdout for option in ("-b", "--brief")] == ["", ""]
    shown = tool("t3doctor", f"-b -p 7199 {address(pair.guests[0])}").stdout
    assert shown.startswith("connection    note   ") and len(shown.splitlines()) == 2


# ofed-check


def test_check_prints_device_and_port_of_the_route(pair, tool):
    server, client = pair.guests
    done = tool("ofed-check", address(server))
    assert (done.rc, done.stdout) == (0, f"{address(server)}: over cxgb3_0 port 1\n")
    report = json.loads(tool("ofed-check", f"--json {address(server, 1)}").stdout)
    assert report["reachable"] and report["device"] == "cxgb3_0" and report["port"] == 2
    for option in ("-q", "--quiet"):
        quiet = tool("ofed-check", f"{option} {address(server)}", ORDINARY_USER)
        assert (quiet.rc, quiet.stdout, quiet.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "options, status, why",
    [
        ("192.0.2.1", 3, "no route"),
        ("--timeout 500 10.0.0.77", 3, "no ARP reply"),
        ("127.0.0.1", 3, "an address of this machine"),
        ("10.0.0.2", 3, "an address of this machine"),
        ("no.such.host.invalid", 1, "no.such.host.invalid: "),
        ("", 2, "address is required"),
        ("-t 0 10.0.0.1", 2, "--timeout"),
        ("--timeout soon 10.0.0.1", 2, "--timeout"),
        ("--loud 10.0.0.1", 2, "--loud"),
    ],
    ids=["no-route", "no-answer", "loopback", "own", "no-name", "nothing", "bad-timeout", "no-number", "bad-option"],
)
def test_check_reports_errors(tool, options, status, why):
    done = tool("ofed-check", options)
    assert done.rc == status and why in done.stderr and not done.stdout, done


def test_check_without_a_connection_manager(bare):
    done = bare.run(f"{BIN}/ofed-check --json 10.0.0.2", 60)
    assert done.rc == 4 and "'ofedctrl -l' loads one" in json.loads(done.stdout)["why"]


# ofedctrl


def test_control_refuses_to_unload_modules_in_use(pair, tool):
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
    assert tool("ofedctrl", "-l").rc == 6  # modprobe does not find the module in this guest
    done = tool("ofedctrl", "-l -k /t3/modules")
    assert done.rc == 0 and "iw_cxgb3: loaded from /t3/modules/iw_cxgb3.ko" in done.stdout, done
    report = json.loads(tool("ofedctrl", "-q --json").stdout)
    assert report["loaded"] and {row["name"]: row["loaded"] for row in report["modules"]}["iw_cxgb3"]
    rping(server, client)


@pytest.mark.parametrize(
    "options, prefix, status, why",
    [
        ("-l", ORDINARY_USER, 5, "needs root"),
        ("-u", ORDINARY_USER, 5, "needs root"),
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
    ],
)
def test_control_reports_errors(tool, options, prefix, status, why):
    done = tool("ofedctrl", options, prefix)
    assert done.rc == status and why in done.stderr and not done.stdout, done


CHOICE = "/etc/modprobe.d/t3rdma-choice.conf"


def serving_modules(guest):
    """The loaded modules for dispatcher and manager."""
    report = json.loads(guest.check(f"{BIN}/ofedctrl --query --json"))
    assert report["loaded"]
    return {row["name"] for row in report["modules"] if row["loaded"]} - {"cxgb3", "iw_cxgb3"}


def rounds(server, client):
    rping(server, client, "-C 3 -V")


def test_control_chooses_own_or_in_tree_modules(pair):
    """All changes and back, with rping after each; parts that are not named stay as they are."""
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
            output = client.check(f"{load} {choice}", 60)
            assert serving_modules(client) == modules, (choice, output)
            rounds(server, client)
    finally:
        client.check(f"{load} --in-tree all", 60)


def test_control_exchanges_no_modules_in_use(pair, tool):
    server, client = pair.guests
    serving = rping_server(client, "-P")
    for choice in ("--own cm", "--own verbs", "--own all"):
        refused = tool("ofedctrl", f"-l -k /t3/modules {choice}")
        assert refused.rc == 4 and "rping has /dev/infiniband/rdma_cm open" in refused.stderr, refused
    assert serving_modules(client) == {"ib_uverbs", "rdma_ucm"}
    serving.kill()
    serving.wait(10)


def test_control_keeps_a_permanent_choice(pair, tool):
    client = pair.guests[1]
    try:
        assert tool("ofedctrl", "-l -k /t3/modules --own cm --permanent").rc == 0
        written = client.check(f"cat {CHOICE}")
        assert (
            "blacklist rdma_ucm\n" in written
            and "softdep iw_cxgb3 post: t3_rdma_cm\n" in written
            and "uverbs" not in written
        )
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
