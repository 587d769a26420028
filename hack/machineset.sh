#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.
#
# Makes a MachineSet of Windows from one of the workers that the cluster has: it takes over where these are,
# in which networks and with which credentials, and exchanges the image, the disk and the user data.
# It needs jq, and oc or kubectl that lead to the cluster. For AWS, VSphere and Nutanix see -i.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: machineset.sh [options]           print the MachineSet, as JSON
       machineset.sh [options] apply     apply it
       machineset.sh [options] delete    delete it, and with it its Machines

  -w VERSION  of Windows Server: 2022 or 2025. Default: 2022. It chooses the image where there is no -i.
  -i IMAGE    AWS: the ID of an AMI. Default: the newest of Amazon, which is asked for with the program aws.
              Azure: the ID of an image. Default: that of Microsoft in the marketplace.
              GCP: the path of an image. Default: the newest of family windows-VERSION-core.
              VSphere: the template, Nutanix: the name of the image. Required.
  -n NAME     of the MachineSet. Default: winworker, on AWS and GCP INFRASTRUCTURE-winworker-ZONE.
              With -b it has winbyoh in the place of winworker.
              Azure, VSphere and Nutanix: at most 9 characters, because Machines get six more, and Windows takes 15.
  -r NUMBER   of Machines. Default: as many as the MachineSet has, or 1.
  -t TYPE     of machines, on AWS, Azure and GCP. Default: m5a.large, Standard_D2s_v3, n1-standard-4.
  -f SET      the MachineSet of workers to make it from. Default: the first one. Each zone has its own.
              One that exists is not changed if it is elsewhere than these, nor, with -f, deleted.
  -b          Machines have the label windowsmachineconfig.openshift.io/ignore=true: nobody configures them,
              and their hosts can be listed in ConfigMap windows-instances. A MachineSet of such Machines is
              neither changed nor deleted without -b, and another one not with it.
USAGE
}

fail() {
  printf 'machineset.sh: %s\n' "$*" >&2
  exit 1
}

readonly namespace=openshift-machine-api resource=machinesets.machine.openshift.io
version=2022 image='' name='' replicas='' type='' from='' ignore=false others=''
readonly ignored=windowsmachineconfig.openshift.io/ignore
while getopts ':w:i:n:r:t:f:bh' option; do
  [[ ! $option =~ ^[wirtf]$ ]] || printf -v others '%s -%s %q' "$others" "$option" "$OPTARG"
  case $option in
    w) version=$OPTARG ;;
    i) image=$OPTARG ;;
    n) name=$OPTARG ;;
    r) replicas=$OPTARG ;;
    t) type=$OPTARG ;;
    f) from=$OPTARG ;;
    b) ignore=true ;;
    h) usage; exit 0 ;;
    :) fail "-$OPTARG needs a value; see -h" ;;
    *) fail "there is no option -$OPTARG; see -h" ;;
  esac
done
shift $((OPTIND - 1))
readonly asked=$from
action=${1:-print}
[[ $# -le 1 && $action =~ ^(print|apply|delete)$ ]] || fail "the action is apply or delete, after all options; see -h"
[[ $version =~ ^(2022|2025)$ ]] || fail "-w is 2022 or 2025, not $version"
[[ $replicas =~ ^(0|[1-9][0-9]{0,3})?$ ]] || fail "-r is a number, not $replicas"
command -v jq >/dev/null || fail "jq is not installed"
client=$(command -v oc || command -v kubectl) || fail "neither oc nor kubectl is installed"

infrastructure=$("$client" get infrastructures.config.openshift.io cluster -o json)
platform=$(jq -r '.status.platformStatus.type // .status.platform // ""' <<<"$infrastructure")
infra=$(jq -r '.status.infrastructureName // ""' <<<"$infrastructure")
[[ -n $infra ]] || fail "Infrastructure cluster has no status.infrastructureName"

# Those of Windows are no examples: they may be of a former run.
workers=$("$client" get "$resource" -n "$namespace" -o json | jq --arg from "$from" '[.items[]
  | select(.spec.template.metadata.labels["machine.openshift.io/cluster-api-machine-role"] == "worker")
  | select(.spec.template.metadata.labels["machine.openshift.io/os-id"] != "Windows")
  | select($from == "" or .metadata.name == $from)] | sort_by(.metadata.name)')
from=$(jq -r '.[0].metadata.name // $from' --arg from "$from" <<<"$workers")
spec=$(jq 'if length == 0 then empty else .[0].spec.template.spec.providerSpec.value end' <<<"$workers")
[[ -n $spec && $spec != null ]] || fail "namespace $namespace has no MachineSet ${from:-of workers} to make one of Windows from"

# ami prints the newest image of Amazon. Anybody may publish one with such a name, so its owner counts.
ami() {
  command -v aws >/dev/null || fail "name an AMI with -i, or install aws, which finds the newest one"
  aws ec2 describe-images --region "$1" --owners amazon --output text \
    --filters "Name=name,Values=Windows_Server-$version-English-Core-Base-*" Name=state,Values=available \
    --query 'sort_by(Images, &CreationDate)[-1].ImageId'
}

zone=''
# shellcheck disable=SC2016 # these are variables of jq
case $platform in
  AWS)
    zone=$(jq -r '.placement.availabilityZone // ""' <<<"$spec")
    if [[ -z $image && $action != delete ]]; then
      image=$(ami "$(jq -r '.placement.region' <<<"$spec")")
      [[ $image =~ ^ami-[0-9a-f]+$ ]] || fail "Amazon has no image of Windows Server $version there; name one with -i"
    fi
    # A reservation is for Linux, and so is confidential computing; those of a group or a host are for their type of machines.
    change='.instanceType as $was | .ami = {id: $image} | .instanceType = ($type // "m5a.large")
      | .blockDevices = [(.blockDevices[0] // {ebs: {volumeType: "gp3"}}) | .ebs.volumeSize = ([.ebs.volumeSize // 0, 120] | max)]
      | del(.capacityReservationId, .cpuOptions) | if .marketType == "CapacityBlock" then del(.marketType) else . end
      | if .instanceType == $was then . else del(.placementGroupName, .placementGroupPartition, .placement.host, .networkInterfaceType)
          | if .placement.tenancy == "host" then del(.placement.tenancy) else . end end'
    ;;
  Azure)
    # Confidential machines and those of trusted launch need other images and sizes. Encryption at the host does not. A disk that is
    # local to the host of the machine is in its cache, whose size the type decides: one that fits is kept.
    change='.vmSize as $was | .osDisk.diskSizeGB as $size | .image = (if $image == "" then {publisher: "MicrosoftWindowsServer", offer: "WindowsServer", sku: ($version + "-datacenter-smalldisk"), version: "latest", resourceID: "", type: "MarketplaceNoPlan"}
        else {publisher: "", offer: "", sku: "", version: "", resourceID: $image} end)
      | .osDisk.osType = "Windows" | .osDisk.diskSizeGB = ([.osDisk.diskSizeGB // 0, 128] | max)
      | .vmSize = ($type // "Standard_D2s_v3") | del(.dataDisks, .osDisk.managedDisk.securityProfile)
      | if .securityProfile.encryptionAtHost == null then del(.securityProfile) else del(.securityProfile.settings) end
      | if .vmSize == $was then . else del(.capacityReservationGroupID) end
      | if .vmSize == $was and .osDisk.diskSizeGB == $size then . else del(.osDisk.diskSettings) end'
    ;;
  GCP)
    zone=$(jq -r '.zone // "" | split("-") | last // ""' <<<"$spec")
    : "${image:=projects/windows-cloud/global/images/family/windows-$version-core}"
    # Google has no type of disk for all types of machines: those of generation 4 (c4, n4 and so on) take only a hyperdisk, and n1 takes none.
    change='.machineType as $was | .disks = [(.disks[0] // {autoDelete: true, boot: true, type: "pd-ssd"}) | .image = $image | .sizeGb = ([.sizeGb // 0, 128] | max)]
      | .machineType = ($type // "n1-standard-4") | del(.confidentialCompute)
      | if .machineType == $was then . else .disks[0].type = (if .machineType | test("^[a-z]+4") then "hyperdisk-balanced" else "pd-ssd" end) end'
    ;;
  VSphere)
    change='.template = $image | .snapshot = "" | .numCPUs = ([.numCPUs // 0, 4] | max) | .memoryMiB = ([.memoryMiB // 0, 16384] | max)
      | .diskGiB = ([.diskGiB // 0, 128] | max) | del(.dataDisks)'
    ;;
  Nutanix)
    change='.image = {type: "name", name: $image} | .systemDiskSize = "120Gi" | .vcpuSockets = 4 | .vcpusPerSocket = 1 | .memorySize = "16Gi"
      | .bootType = "" | del(.dataDisks, .gpus)'
    ;;
  *) fail "nothing is known of MachineSets on platform ${platform:-of this cluster}: AWS, Azure, GCP, VSphere and Nutanix have them" ;;
esac
[[ -z $type || $platform =~ ^(AWS|Azure|GCP)$ ]] || fail "-t has no meaning on $platform"

# Both names are those of WMCO's script. Under one name, the set of ignored Machines would be that of the nodes.
kind=winworker
[[ $ignore == false ]] || kind=winbyoh
limit=57
if [[ $platform =~ ^(Azure|VSphere|Nutanix)$ ]]; then
  limit=9
  : "${name:=$kind}"
fi
: "${name:=$infra-$kind${zone:+-$zone}}"
[[ $name =~ ^[a-z]([-a-z0-9]*[a-z0-9])?$ && ${#name} -le $limit ]] ||
  fail "$name is no name for a MachineSet on $platform: that has at most $limit lower-case letters, digits and hyphens; see -n"

# One that is there is only touched if it is of Windows.
current=$("$client" get "$resource" "$name" -n "$namespace" --ignore-not-found -o json)
if [[ -n $current && $(jq -r '.spec.template.metadata.labels["machine.openshift.io/os-id"]' <<<"$current") != Windows ]]; then
  fail "MachineSet $name exists and is not of Windows; choose another name with -n"
fi
# Machines of a set that gets the label by mistake are never configured, and a name that is mistaken must not delete nodes.
# shellcheck disable=SC2016 # these are variables of jq
if [[ -n $current && $(jq --arg ignored "$ignored" '.spec.template.metadata.labels[$ignored] == "true"' <<<"$current") != "$ignore" ]]; then
  again="$others -n $name" action=${1:-}
  if [[ $ignore == true ]]; then
    fail "MachineSet $name exists, and its Machines are not ignored: they have no label $ignored=true. Choose another name with -n, or run this without -b: $0$again${action:+ $action}"
  fi
  fail "MachineSet $name exists, and its Machines are ignored: they have the label $ignored=true. Choose another name with -n, or run this with -b: $0$again -b${action:+ $action}"
fi
# On some platforms all zones have the same default name, and a set has a zone of its own. Who names one to be deleted need not
# say which workers it was made from.
if [[ -n $current && ($action != delete || -n $asked) ]]; then
  # shellcheck disable=SC2016 # these are variables of jq
  elsewhere=$(jq -rn --argjson current "$current" --argjson spec "$spec" '
    def place: {
      placement: (.placement // {} | {region, availabilityZone}), subnet, location, zone, vnet, resourceGroup, networkResourceGroup, projectID, networkInterfaces,
      workspace, network, cluster, subnets, failureDomain
    };
    def at($p): try getpath($p) catch null;
    ($current.spec.template.spec.providerSpec.value // {} | place) as $there | ($spec | place) as $here
    | [($there, $here) | paths(type != "object" and type != "array")] | unique
    | map(. as $p | ($there | at($p)) as $is | ($here | at($p)) as $wanted | select($is != $wanted)
      | "its \(map(tostring) | join(".")) is \($is), not \($wanted)")
    | .[:3] | join("; ")')
  [[ -z $elsewhere ]] || fail "MachineSet $name exists and was not made from MachineSet $from: $elsewhere. Name the one that it was made from with -f, or choose another name with -n"
fi
if [[ $action == delete ]]; then
  "$client" delete "$resource" "$name" -n "$namespace" --ignore-not-found
  exit
fi
[[ -n $image || $platform == Azure ]] || fail "name the image of Windows with -i; see -h"

# How many there are is decided by others once the set is there, say by the autoscaler.
: "${replicas:=$(jq -r '.spec.replicas // 1' <<<"${current:-null}")}"
# The autoscaler takes a set of 0 for one of Linux without the annotations.
# shellcheck disable=SC2016 # these are variables of jq
machineset=$(jq --arg image "$image" --arg version "$version" --arg type "$type" --arg name "$name" --arg infra "$infra" \
  --arg namespace "$namespace" --argjson replicas "$replicas" --argjson ignore "$ignore" --arg ignored "$ignored" '
  ($type | if . == "" then null else . end) as $type
  | ('"$change"' | del(.metadata) | .userDataSecret = ((.userDataSecret // {}) | .name = "windows-user-data")) as $value
  | {"machine.openshift.io/cluster-api-cluster": $infra, "machine.openshift.io/cluster-api-machineset": $name} as $selector
  | {
      apiVersion: "machine.openshift.io/v1beta1", kind: "MachineSet",
      metadata: {
        name: $name, namespace: $namespace, labels: {"machine.openshift.io/cluster-api-cluster": $infra},
        annotations: {
          "capacity.cluster-autoscaler.kubernetes.io/labels": "kubernetes.io/os=windows",
          "capacity.cluster-autoscaler.kubernetes.io/taints": "os=Windows:NoSchedule"
        }
      },
      spec: {
        replicas: $replicas, selector: {matchLabels: $selector},
        template: {
          metadata: {labels: ($selector + {
            "machine.openshift.io/cluster-api-machine-role": "worker", "machine.openshift.io/cluster-api-machine-type": "worker",
            "machine.openshift.io/os-id": "Windows"
          } + if $ignore then {($ignored): "true"} else {} end)},
          spec: {metadata: {labels: {"node-role.kubernetes.io/worker": ""}}, providerSpec: {value: $value}}
        }
      }
    }' <<<"$spec")
if [[ $action == apply ]]; then
  "$client" apply -f - <<<"$machineset"
else
  printf '%s\n' "$machineset"
fi
