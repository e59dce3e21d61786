{{/* Names. As usual for charts: the release, followed by the chart unless it is in there already. */}}
{{- define "bmcsim.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "bmcsim.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "bmcsim.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "bmcsim.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "bmcsim.namespace" -}}
{{- .Values.global.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{- define "bmcsim.host" -}}
{{- printf "%s.%s.svc.%s" .service (include "bmcsim.namespace" .root) .root.Values.clusterDomain -}}
{{- end -}}

{{/* Labels of an object. Takes root and component. */}}
{{- define "bmcsim.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: {{ index .root.Values.global.labels "app.kubernetes.io/part-of" | default "site-controller" }}
{{ include "bmcsim.selectorLabels" . }}
{{- with omit .root.Values.global.labels "helm.sh/chart" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "app.kubernetes.io/part-of" "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "bmcsim.selectorLabels" -}}
app.kubernetes.io/name: {{ include "bmcsim.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "bmcsim.image" -}}
{{- $own := .Values.image.repository -}}
{{- $global := .Values.global.image | default dict -}}
{{- if $own -}}
{{- printf "%s:%s" $own (.Values.image.tag | default .Chart.AppVersion) -}}
{{- else if $global.repository -}}
{{- printf "%s:%s" $global.repository ($global.tag | default .Chart.AppVersion) -}}
{{- else -}}
{{- printf "bmcsim:%s" (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* What every container may: nothing. */}}
{{- define "bmcsim.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "bmcsim.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .user }}
runAsGroup: {{ .user }}
fsGroup: {{ .user }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "bmcsim.controller" -}}
{{- if (index .Values "mat-k8s-controller").enabled -}}true{{- end -}}
{{- end -}}

{{/*
The pods that have something to serve, as {"pods": [{name, index, config}]} in JSON; index counts in the order of names.
Without any there is one small pod.
*/}}
{{- define "bmcsim.pods" -}}
{{- $given := dict -}}
{{- range $name, $config := .Values.pods -}}
{{- $groups := dict -}}
{{- if $config -}}
{{- range $group, $of := $config.machines -}}{{- if $of -}}{{- $_ := set $groups (printf "machines.%s" $group) $of -}}{{- end -}}{{- end -}}
{{- range $group, $of := $config.racks -}}{{- if $of -}}{{- $_ := set $groups (printf "racks.%s" $group) $of -}}{{- end -}}{{- end -}}
{{- end -}}
{{- if or $groups (index $.Values.configFiles.matConfigs $name) -}}
{{- $_ := set $given $name ($config | default dict) -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := .Values.configFiles.matConfigs -}}
{{- if not (hasKey $given $name) -}}{{- $_ := set $given $name dict -}}{{- end -}}
{{- end -}}
{{- if not $given -}}
{{- $relays := dict "bmcDhcpRelayAddress" "10.200.0.1" "underlayDhcpRelayAddress" "10.104.0.1" -}}
{{- $small := merge (dict "hwType" "dell_poweredge_r750" "hostCount" 10 "dpuPerHostCount" 2) $relays -}}
{{- $_ := set $given "mat-0" (dict "machines" (dict "compute" $small)) -}}
{{- end -}}
{{- $pods := list -}}
{{- range $index, $name := keys $given | sortAlpha -}}
{{- $pods = append $pods (dict "name" $name "index" $index "config" (index $given $name)) -}}
{{- end -}}
{{- dict "pods" $pods | toJson -}}
{{- end -}}

{{/* One Deployment each, as {"instances": [{key, pod, name, shard}]}: a pod, or one of its shards. */}}
{{- define "bmcsim.instances" -}}
{{- $fullname := include "bmcsim.fullname" . -}}
{{- $instances := list -}}
{{- range (include "bmcsim.pods" . | fromJson).pods -}}
{{- $shards := .config.shards | default 1 | int -}}
{{- $pod := .name -}}
{{- if eq $shards 1 -}}
{{- $instances = append $instances (dict "key" $pod "pod" $pod "name" (printf "%s-%s" $fullname $pod) "shard" "") -}}
{{- else -}}
{{- range $number := untilStep 1 (int (add1 $shards)) 1 -}}
{{- $key := printf "%s-s%d" $pod $number -}}
{{- $instances = append $instances (dict "key" $key "pod" $pod "name" (printf "%s-%s" $fullname $key) "shard" (printf "%d/%d" $number $shards)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "instances" $instances | toJson -}}
{{- end -}}

{{/* pool, udp_relay or api. */}}
{{- define "bmcsim.dhcpType" -}}
{{- if .Values.dhcpRelay.baseIP -}}udp_relay
{{- else if .Values.dhcp.type -}}{{ .Values.dhcp.type }}
{{- else if .Values.machineATron.nicoApiUrl -}}api
{{- else -}}pool
{{- end -}}
{{- end -}}

{{/* The address of the relay of a pod. Takes root and index. */}}
{{- define "bmcsim.relay" -}}
{{- $parts := splitList "." .root.Values.dhcpRelay.baseIP -}}
{{- $last := add (index $parts 3 | int) (int .index) -}}
{{- if gt $last 255 -}}
{{- fail (printf "dhcpRelay.baseIP: %s plus the number of the pod, %d, is beyond .255; begin lower" .root.Values.dhcpRelay.baseIP (int .index)) -}}
{{- end -}}
{{- printf "%s.%s.%s.%d" (index $parts 0) (index $parts 1) (index $parts 2) $last -}}
{{- end -}}

{{/*
A block of MACs of a pod, as {"base", "bits"} in JSON, or {} where the chart leaves it to bmcsim.
Takes root, pod (as in bmcsim.pods) and key, macAddressPool or hwMacAddressRanges.
*/}}
{{- define "bmcsim.macs" -}}
{{- $common := index .root.Values .key -}}
{{- $own := index .pod.config .key | default dict -}}
{{- if $own.base -}}
{{- dict "base" ($own.base | lower) "bits" ($own.hostBits | default $common.hostBits) "rangeBits" ($own.rangeHostBits | default $common.rangeHostBits) | toJson -}}
{{- else if $common.enabled -}}
{{- dict "base" (printf "%s:%02x:00:00:00" ($common.basePrefix | lower) (int .pod.index)) "bits" ($own.hostBits | default $common.hostBits) "rangeBits" ($own.rangeHostBits | default $common.rangeHostBits) | toJson -}}
{{- else -}}
{}
{{- end -}}
{{- end -}}

{{/* Fails where two blocks of MACs, of one pod or of two, have a MAC in common. Blocks that bmcsim chooses count too. */}}
{{- define "bmcsim.checkMacs" -}}
{{- $root := . -}}
{{- $pods := (include "bmcsim.pods" . | fromJson).pods -}}
{{- $defaults := dict "macAddressPool" (dict "base" "02:00:00:00:00:00" "bits" 24) "hwMacAddressRanges" (dict "base" "06:00:00:00:00:00" "bits" 32) -}}
{{- $blocks := list -}}
{{- range $pod := $pods -}}
{{- if and (not (index $root.Values.configFiles.matConfigs $pod.name)) -}}
{{- range $key, $default := $defaults -}}
{{- $block := include "bmcsim.macs" (dict "root" $root "pod" $pod "key" $key) | fromJson -}}
{{- $base := $block.base | default $default.base -}}
{{- $bits := $block.bits | default $default.bits | int -}}
{{- $size := 1 -}}
{{- range until $bits -}}{{- $size = mul $size 2 -}}{{- end -}}
{{- $first := mul (div (printf "0x%s" (replace ":" "" $base) | int64) $size) $size -}}
{{- $blocks = append $blocks (printf "%015d %015d pods.%s.%s %s/%d" $first (sub (add $first $size) 1) $pod.name $key $base $bits) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $before := list -}}
{{- range $blocks | sortAlpha -}}
{{- $block := splitList " " . -}}
{{- if $before -}}
{{- if le (index $block 0) (index $before 1) -}}
{{- fail (printf "MACs: %s (%s) overlaps %s (%s); set macAddressPool.enabled and hwMacAddressRanges.enabled, or bases of their own for these pods" (index $block 2) (index $block 3) (index $before 2) (index $before 3)) -}}
{{- end -}}
{{- end -}}
{{- $before = $block -}}
{{- end -}}
{{- end -}}

{{/* Fails where a rack is simulated twice, or a free machine says that it is in a simulated rack. */}}
{{- define "bmcsim.checkRacks" -}}
{{- $owners := dict -}}
{{- $pods := (include "bmcsim.pods" . | fromJson).pods -}}
{{- range $pod := $pods -}}
{{- range $group, $of := $pod.config.racks -}}
{{- if $of -}}
{{- $path := printf "pods.%s.racks.%s" $pod.name $group -}}
{{- range $id := $of.ids -}}
{{- if hasKey $owners $id -}}
{{- fail (printf "%s.ids: rack %s is in %s already; every rack is simulated once" $path $id (get $owners $id)) -}}
{{- end -}}
{{- $_ := set $owners $id $path -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $pod := $pods -}}
{{- range $group, $of := $pod.config.machines -}}
{{- if $of -}}
{{- if $of.rackId -}}
{{- if hasKey $owners $of.rackId -}}
{{- fail (printf "pods.%s.machines.%s.rackId: rack %s is simulated by %s, which has no room for more machines" $pod.name $group $of.rackId (get $owners $of.rackId)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fails where interfaces have no relay although NICo chooses their network by it. Shelves have no underlay. */}}
{{- define "bmcsim.checkRelays" -}}
{{- range $pod := (include "bmcsim.pods" . | fromJson).pods -}}
{{- range $group, $of := $pod.config.machines -}}
{{- if $of -}}
{{- $shelf := hasSuffix "_power_shelf" ($of.hwType | default "") -}}
{{- $key := printf "pods.%s.machines.%s" $pod.name $group -}}
{{- include "bmcsim.need" (dict "key" (printf "%s.bmcDhcpRelayAddress" $key) "network" "BMC" "given" (list $of.bmcDhcpRelayAddress $of.oobDhcpRelayAddress)) -}}
{{- include "bmcsim.need" (dict "key" (printf "%s.underlayDhcpRelayAddress" $key) "network" "underlay" "given" (list $of.underlayDhcpRelayAddress $of.adminDhcpRelayAddress $of.hostInbandDhcpRelayAddress $shelf)) -}}
{{- end -}}
{{- end -}}
{{- range $group, $of := $pod.config.racks -}}
{{- if $of -}}
{{- $key := printf "pods.%s.racks.%s" $pod.name $group -}}
{{- include "bmcsim.need" (dict "key" (printf "%s.bmc_dhcp_relay_address" $key) "network" "BMC" "given" (list $of.bmc_dhcp_relay_address $of.oob_dhcp_relay_address)) -}}
{{- include "bmcsim.need" (dict "key" (printf "%s.underlay_dhcp_relay_address" $key) "network" "underlay" "given" (list $of.underlay_dhcp_relay_address $of.admin_dhcp_relay_address)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "bmcsim.need" -}}
{{- if not (compact .given) -}}
{{- fail (printf "%s: is missing; write the gateway of the %s network in NICo's site configuration, such as 10.200.0.1" .key .network) -}}
{{- end -}}
{{- end -}}

{{/* Everything that no schema can say. */}}
{{- define "bmcsim.check" -}}
{{- $pods := (include "bmcsim.pods" . | fromJson).pods -}}
{{- $instances := (include "bmcsim.instances" . | fromJson).instances -}}
{{- $controller := include "bmcsim.controller" . -}}
{{- $type := include "bmcsim.dhcpType" . -}}
{{- if and (gt (len $instances) 1) (not $controller) -}}
{{- $names := list -}}
{{- range $instances -}}{{- $names = append $names .key -}}{{- end -}}
{{- fail (printf "pods: there are %d (%s), and only a controller leads to more than one; set mat-k8s-controller.enabled=true, or leave one pod" (len $instances) (join ", " $names)) -}}
{{- end -}}
{{- if gt (len $pods) 256 -}}
{{- fail (printf "pods: there are %d, and blocks of MACs are numbered with one byte; at most 256 are possible" (len $pods)) -}}
{{- end -}}
{{- if and .Values.bmcProxy.enabled $controller -}}
{{- fail "bmcProxy.enabled: the proxy stands before one Service for the whole fleet, the controller makes one for each BMC; enable one of them" -}}
{{- end -}}
{{- if and .Values.machineATron.configureBmcProxyHost $controller -}}
{{- fail "machineATron.configureBmcProxyHost: leads NICo to one address for all BMCs, and in Controller Mode each has a Service of its own; leave it empty" -}}
{{- end -}}
{{- if and (eq $type "api") (not .Values.machineATron.nicoApiUrl) -}}
{{- fail "dhcp.type: api takes addresses from NICo; set machineATron.nicoApiUrl, or dhcp.type=pool" -}}
{{- end -}}
{{- if and (eq $type "udp_relay") (not .Values.dhcpRelay.serverAddress) -}}
{{- fail "dhcpRelay.serverAddress: is missing; write ADDRESS:PORT of the DHCP server, such as the ClusterIP of its Service and 67" -}}
{{- end -}}
{{- $prefixes := dict -}}
{{- range $pods -}}
{{- $own := .config.dhcp | default dict -}}
{{- if and (gt (int (.config.shards | default 1)) 1) (ne $type "pool") -}}
{{- fail (printf "pods.%s.shards: shards need planned addresses (dhcp.type=pool); with leased ones give several pods groups of their own" .name) -}}
{{- end -}}
{{- if eq $type "pool" -}}
{{- $prefix := $own.prefix | default $.Values.dhcp.prefix | default "the default one" -}}
{{- if hasKey $prefixes $prefix -}}
{{- fail (printf "pods.%s.dhcp.prefix: %s is the prefix of pods.%s too, so their BMCs would have the same addresses" .name $prefix (get $prefixes $prefix)) -}}
{{- end -}}
{{- $_ := set $prefixes $prefix .name -}}
{{- end -}}
{{- end -}}
{{- include "bmcsim.checkMacs" . -}}
{{- include "bmcsim.checkRacks" . -}}
{{- if eq $type "api" }}{{- include "bmcsim.checkRelays" . -}}{{- end -}}
{{- end -}}

{{/*
The fleet file of a pod. Takes root and pod. Numbers are made whole here, since those of values files are floating.
*/}}
{{- define "bmcsim.fleet" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $pod := .pod -}}
{{- $mat := $values.machineATron -}}
{{- $type := include "bmcsim.dhcpType" $root -}}
{{- $file := dict "bmc_mock_port" (int $values.service.bmcMock.port) "log_format" $mat.logFormat -}}
{{- if $mat.nicoApiUrl -}}
{{- $_ := set $file "carbide_api_url" $mat.nicoApiUrl -}}
{{- $_ := set $file "register_expected_machines" $mat.registerExpectedMachines -}}
{{- $_ := set $file "cleanup_on_quit" $mat.cleanupOnQuit -}}
{{- with $mat.configureBmcProxyHost }}{{- $_ := set $file "configure_carbide_bmc_proxy_host" . -}}{{- end -}}
{{- end -}}
{{- with $mat.logFile }}{{- $_ := set $file "log_file" . -}}{{- end -}}
{{- if $values.persistence.enabled }}{{- $_ := set $file "persist_dir" $mat.persistDir -}}{{- end -}}
{{- $dhcp := dict "type" $type -}}
{{- $given := merge (dict) ($pod.config.dhcp | default dict) $values.dhcp -}}
{{- if eq $type "pool" -}}
{{- range $key, $name := dict "prefix" "prefix" "gateway" "gateway" "prefix6" "prefix6" "gateway6" "gateway6" "exhaustion" "exhaustion" "exclude" "exclude" -}}
{{- with index $given $key }}{{- $_ := set $dhcp $name . -}}{{- end -}}
{{- end -}}
{{- if hasKey $given "reserveFirst" }}{{- $_ := set $dhcp "reserve_first" (int $given.reserveFirst) -}}{{- end -}}
{{- else if eq $type "udp_relay" -}}
{{- $_ := set $dhcp "server_address" $values.dhcpRelay.serverAddress -}}
{{- $_ := set $dhcp "listen_address" (printf "0.0.0.0:%d" (int $values.dhcpRelay.containerPort)) -}}
{{- $_ := set $dhcp "advertise_address" (include "bmcsim.relay" (dict "root" $root "index" $pod.index)) -}}
{{- else -}}
{{- with $given.concurrency }}{{- $_ := set $dhcp "concurrency" (int .) -}}{{- end -}}
{{- with $given.rate }}{{- $_ := set $dhcp "rate" . -}}{{- end -}}
{{- end -}}
{{- $_ := set $file "dhcp" $dhcp -}}
{{- $pool := include "bmcsim.macs" (dict "root" $root "pod" $pod "key" "macAddressPool") | fromJson -}}
{{- if $pool }}{{- $_ := set $file "mac_address_pool" (dict "base" $pool.base "host_bits" (int $pool.bits)) -}}{{- end -}}
{{- $ranges := include "bmcsim.macs" (dict "root" $root "pod" $pod "key" "hwMacAddressRanges") | fromJson -}}
{{- if $ranges }}{{- $_ := set $file "hw_mac_address_ranges" (dict "base" $ranges.base "host_bits" (int $ranges.bits) "range_host_bits" (int $ranges.rangeBits)) -}}{{- end -}}
{{- $machines := dict -}}
{{- range $name, $group := $pod.config.machines -}}
{{- if $group -}}{{- $_ := set $machines $name (include "bmcsim.group" (dict "root" $root "pod" $pod "group" $group) | fromJson) -}}{{- end -}}
{{- end -}}
{{- range $machines -}}
{{- $_ := set . "host_count" (int .host_count) -}}
{{- $_ := set . "dpu_per_host_count" (int .dpu_per_host_count) -}}
{{- end -}}
{{- $_ := set $file "machines" $machines -}}
{{- $racks := dict -}}
{{- range $name, $group := $pod.config.racks -}}
{{- if $group -}}{{- $_ := set $racks $name (include "bmcsim.rackGroup" (dict "root" $root "pod" $pod "group" $group) | fromJson) -}}{{- end -}}
{{- end -}}
{{- if $racks }}{{- $_ := set $file "racks" $racks -}}{{- end -}}
{{- toToml $file -}}
{{- range list $values.extraToml $pod.config.extraToml }}
{{- with . }}
{{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The table of a group of machines, in JSON. What bmcsim does not use is left out. */}}
{{- define "bmcsim.group" -}}
{{- $values := .root.Values -}}
{{- $defaults := $values.machineDefaults -}}
{{- $group := .group -}}
{{- $table := dict "host_count" (hasKey $group "hostCount" | ternary $group.hostCount 1) "dpu_per_host_count" ($group.dpuPerHostCount | default 0) -}}
{{- $of := dict "hwType" "hw_type" "variant" "variant" "rackId" "rack_id" "preset" "preset" "credentials" "credentials" "whileResetting" "while_resetting" "faults" "faults" "hostInbandDhcpRelayAddress" "host_inband_dhcp_relay_address" "timingOverrides" "timing_overrides" "hostFirmwareVersions" "host_firmware_versions" "dpuFirmwareVersions" "dpu_firmware_versions" "desiredFirmware" "desired_firmware" "accelerationFactor" "acceleration_factor" "dpusInNicMode" "dpus_in_nic_mode" "dpfEnabled" "dpf_enabled" -}}
{{- range $key, $name := $of -}}
{{- if hasKey $group $key -}}
{{- if not (kindIs "invalid" (index $group $key)) }}{{- $_ := set $table $name (index $group $key) -}}{{- end -}}
{{- else if hasKey $defaults $key -}}
{{- if not (kindIs "invalid" (index $defaults $key)) }}{{- $_ := set $table $name (index $defaults $key) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $bmc := coalesce $group.bmcDhcpRelayAddress $group.oobDhcpRelayAddress -}}
{{- if $values.dhcpRelay.baseIP }}{{- $bmc = include "bmcsim.relay" (dict "root" .root "index" .pod.index) -}}{{- end -}}
{{- with $bmc }}{{- $_ := set $table "bmc_dhcp_relay_address" . -}}{{- end -}}
{{- with coalesce $group.underlayDhcpRelayAddress $group.adminDhcpRelayAddress }}{{- $_ := set $table "underlay_dhcp_relay_address" . -}}{{- end -}}
{{- toJson $table -}}
{{- end -}}

{{/* The table of a group of racks, in JSON. Its keys are those of the fleet file already. */}}
{{- define "bmcsim.rackGroup" -}}
{{- $unused := list "dpu_reboot_delay" "host_reboot_delay" "scout_run_interval" "discovery_retry_interval" "run_interval_working" "run_interval_idle" "network_status_run_interval" "network_virtualization_type" "dpu_agent_version" "oob_dhcp_relay_address" "admin_dhcp_relay_address" -}}
{{- $table := dict -}}
{{- range $key, $value := .group -}}
{{- if not (or (has $key $unused) (kindIs "invalid" $value)) }}{{- $_ := set $table $key $value -}}{{- end -}}
{{- end -}}
{{- if not (hasKey $table "acceleration_factor") }}{{- $_ := set $table "acceleration_factor" .root.Values.machineDefaults.accelerationFactor -}}{{- end -}}
{{- $bmc := coalesce .group.bmc_dhcp_relay_address .group.oob_dhcp_relay_address -}}
{{- if .root.Values.dhcpRelay.baseIP }}{{- $bmc = include "bmcsim.relay" (dict "root" .root "index" .pod.index) -}}{{- end -}}
{{- with $bmc }}{{- $_ := set $table "bmc_dhcp_relay_address" . -}}{{- end -}}
{{- with coalesce .group.underlay_dhcp_relay_address .group.admin_dhcp_relay_address }}{{- $_ := set $table "underlay_dhcp_relay_address" . -}}{{- end -}}
{{- toJson $table -}}
{{- end -}}

{{/*
Passwords that BMCs are pinned to, as {"host", "dpu"} in JSON: those of the values, else the site's root password, looked
up in the cluster. `helm template` has no cluster, and finds none.
*/}}
{{- define "bmcsim.passwords" -}}
{{- $mat := .Values.machineATron -}}
{{- $from := $mat.siteCredentialsSecret -}}
{{- $site := "" -}}
{{- if and $from.name $mat.nicoApiUrl -}}
{{- $secret := lookup "v1" "Secret" $from.namespace $from.name -}}
{{- with $secret -}}
{{- $where := printf "Secret %s/%s, key %s" $from.namespace $from.name $from.key -}}
{{- $document := index (.data | default dict) $from.key | default "" | b64dec | fromYaml -}}
{{- if hasKey $document "Error" }}{{- fail (printf "%s: is not YAML" $where) -}}{{- end -}}
{{- $entry := $document.bmc_site_wide_root | default dict -}}
{{- if not (kindIs "string" ($entry.password | default "")) }}{{- fail (printf "%s: bmc_site_wide_root.password must be a text; put it in quotes" $where) -}}{{- end -}}
{{- $site = $entry.password | default "" -}}
{{- end -}}
{{- end -}}
{{- $passwords := dict -}}
{{- with coalesce $mat.hostBmcPassword $site }}{{- $_ := set $passwords "host" . -}}{{- end -}}
{{- with coalesce $mat.dpuBmcPassword $site }}{{- $_ := set $passwords "dpu" . -}}{{- end -}}
{{- toJson $passwords -}}
{{- end -}}

{{/* A probe: what is asked is the chart's, when and how often the values'. Takes path and values. */}}
{{- define "bmcsim.probe" -}}
httpGet:
  path: {{ .path }}
  port: metrics
{{- with omit .values "tcpSocket" "httpGet" "exec" "grpc" }}
{{ toYaml . }}
{{- end }}
{{- end -}}
