from bmcsim.edges.nico import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConfigSetting(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_FILTER: _ClassVar[ConfigSetting]
    CREATE_MACHINES: _ClassVar[ConfigSetting]
    BMC_PROXY: _ClassVar[ConfigSetting]
    TRACING_ENABLED: _ClassVar[ConfigSetting]
    SITE_EXPLORER_ENABLED: _ClassVar[ConfigSetting]

class NetworkSegmentType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TENANT: _ClassVar[NetworkSegmentType]
    ADMIN: _ClassVar[NetworkSegmentType]
    UNDERLAY: _ClassVar[NetworkSegmentType]
    HOST_INBAND: _ClassVar[NetworkSegmentType]

class DpuMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DPU_MODE_UNSPECIFIED: _ClassVar[DpuMode]
    DPU_MODE: _ClassVar[DpuMode]
    NIC_MODE: _ClassVar[DpuMode]
    NO_DPU: _ClassVar[DpuMode]
LOG_FILTER: ConfigSetting
CREATE_MACHINES: ConfigSetting
BMC_PROXY: ConfigSetting
TRACING_ENABLED: ConfigSetting
SITE_EXPLORER_ENABLED: ConfigSetting
TENANT: NetworkSegmentType
ADMIN: NetworkSegmentType
UNDERLAY: NetworkSegmentType
HOST_INBAND: NetworkSegmentType
DPU_MODE_UNSPECIFIED: DpuMode
DPU_MODE: DpuMode
NIC_MODE: DpuMode
NO_DPU: DpuMode

class VersionRequest(_message.Message):
    __slots__ = ("display_config",)
    DISPLAY_CONFIG_FIELD_NUMBER: _ClassVar[int]
    display_config: bool
    def __init__(self, display_config: _Optional[bool] = ...) -> None: ...

class BuildInfo(_message.Message):
    __slots__ = ("build_version", "build_date")
    BUILD_VERSION_FIELD_NUMBER: _ClassVar[int]
    BUILD_DATE_FIELD_NUMBER: _ClassVar[int]
    build_version: str
    build_date: str
    def __init__(self, build_version: _Optional[str] = ..., build_date: _Optional[str] = ...) -> None: ...

class DhcpDiscovery(_message.Message):
    __slots__ = ("mac_address", "relay_address", "vendor_string")
    MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RELAY_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VENDOR_STRING_FIELD_NUMBER: _ClassVar[int]
    mac_address: str
    relay_address: str
    vendor_string: str
    def __init__(self, mac_address: _Optional[str] = ..., relay_address: _Optional[str] = ..., vendor_string: _Optional[str] = ...) -> None: ...

class DhcpRecord(_message.Message):
    __slots__ = ("machine_id", "machine_interface_id", "segment_id", "subdomain_id", "fqdn", "mac_address", "address", "mtu", "prefix", "gateway", "ntp_servers")
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    MACHINE_INTERFACE_ID_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBDOMAIN_ID_FIELD_NUMBER: _ClassVar[int]
    FQDN_FIELD_NUMBER: _ClassVar[int]
    MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MTU_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    NTP_SERVERS_FIELD_NUMBER: _ClassVar[int]
    machine_id: _common_pb2.MachineId
    machine_interface_id: _common_pb2.MachineInterfaceId
    segment_id: _common_pb2.NetworkSegmentId
    subdomain_id: _common_pb2.DomainId
    fqdn: str
    mac_address: str
    address: str
    mtu: int
    prefix: str
    gateway: str
    ntp_servers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, machine_id: _Optional[_Union[_common_pb2.MachineId, _Mapping]] = ..., machine_interface_id: _Optional[_Union[_common_pb2.MachineInterfaceId, _Mapping]] = ..., segment_id: _Optional[_Union[_common_pb2.NetworkSegmentId, _Mapping]] = ..., subdomain_id: _Optional[_Union[_common_pb2.DomainId, _Mapping]] = ..., fqdn: _Optional[str] = ..., mac_address: _Optional[str] = ..., address: _Optional[str] = ..., mtu: _Optional[int] = ..., prefix: _Optional[str] = ..., gateway: _Optional[str] = ..., ntp_servers: _Optional[_Iterable[str]] = ...) -> None: ...

class GetDesiredFirmwareVersionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetDesiredFirmwareVersionsResponse(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[DesiredFirmwareVersionEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[DesiredFirmwareVersionEntry, _Mapping]]] = ...) -> None: ...

class DesiredFirmwareVersionEntry(_message.Message):
    __slots__ = ("vendor", "model", "component_versions")
    class ComponentVersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VENDOR_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    vendor: str
    model: str
    component_versions: _containers.ScalarMap[str, str]
    def __init__(self, vendor: _Optional[str] = ..., model: _Optional[str] = ..., component_versions: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SetDynamicConfigRequest(_message.Message):
    __slots__ = ("setting", "value", "expiry")
    SETTING_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_FIELD_NUMBER: _ClassVar[int]
    setting: ConfigSetting
    value: str
    expiry: str
    def __init__(self, setting: _Optional[_Union[ConfigSetting, str]] = ..., value: _Optional[str] = ..., expiry: _Optional[str] = ...) -> None: ...

class ExpectedHostNic(_message.Message):
    __slots__ = ("mac_address", "primary", "network_segment_type")
    MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_FIELD_NUMBER: _ClassVar[int]
    NETWORK_SEGMENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    mac_address: str
    primary: bool
    network_segment_type: NetworkSegmentType
    def __init__(self, mac_address: _Optional[str] = ..., primary: _Optional[bool] = ..., network_segment_type: _Optional[_Union[NetworkSegmentType, str]] = ...) -> None: ...

class ExpectedMachine(_message.Message):
    __slots__ = ("bmc_mac_address", "bmc_username", "bmc_password", "chassis_serial_number", "host_nics", "rack_id", "dpf_enabled", "is_dpf_enabled", "dpu_mode", "replace_host_nics")
    BMC_MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    BMC_USERNAME_FIELD_NUMBER: _ClassVar[int]
    BMC_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    CHASSIS_SERIAL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    HOST_NICS_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    DPF_ENABLED_FIELD_NUMBER: _ClassVar[int]
    IS_DPF_ENABLED_FIELD_NUMBER: _ClassVar[int]
    DPU_MODE_FIELD_NUMBER: _ClassVar[int]
    REPLACE_HOST_NICS_FIELD_NUMBER: _ClassVar[int]
    bmc_mac_address: str
    bmc_username: str
    bmc_password: str
    chassis_serial_number: str
    host_nics: _containers.RepeatedCompositeFieldContainer[ExpectedHostNic]
    rack_id: _common_pb2.RackId
    dpf_enabled: bool
    is_dpf_enabled: bool
    dpu_mode: DpuMode
    replace_host_nics: bool
    def __init__(self, bmc_mac_address: _Optional[str] = ..., bmc_username: _Optional[str] = ..., bmc_password: _Optional[str] = ..., chassis_serial_number: _Optional[str] = ..., host_nics: _Optional[_Iterable[_Union[ExpectedHostNic, _Mapping]]] = ..., rack_id: _Optional[_Union[_common_pb2.RackId, _Mapping]] = ..., dpf_enabled: _Optional[bool] = ..., is_dpf_enabled: _Optional[bool] = ..., dpu_mode: _Optional[_Union[DpuMode, str]] = ..., replace_host_nics: _Optional[bool] = ...) -> None: ...

class ExpectedPowerShelf(_message.Message):
    __slots__ = ("bmc_mac_address", "bmc_username", "bmc_password", "shelf_serial_number", "rack_id", "bmc_retain_credentials")
    BMC_MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    BMC_USERNAME_FIELD_NUMBER: _ClassVar[int]
    BMC_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    SHELF_SERIAL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    BMC_RETAIN_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    bmc_mac_address: str
    bmc_username: str
    bmc_password: str
    shelf_serial_number: str
    rack_id: _common_pb2.RackId
    bmc_retain_credentials: bool
    def __init__(self, bmc_mac_address: _Optional[str] = ..., bmc_username: _Optional[str] = ..., bmc_password: _Optional[str] = ..., shelf_serial_number: _Optional[str] = ..., rack_id: _Optional[_Union[_common_pb2.RackId, _Mapping]] = ..., bmc_retain_credentials: _Optional[bool] = ...) -> None: ...

class ExpectedSwitch(_message.Message):
    __slots__ = ("bmc_mac_address", "bmc_username", "bmc_password", "switch_serial_number", "rack_id", "nvos_username", "nvos_password", "nvos_mac_addresses")
    BMC_MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    BMC_USERNAME_FIELD_NUMBER: _ClassVar[int]
    BMC_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    SWITCH_SERIAL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    NVOS_USERNAME_FIELD_NUMBER: _ClassVar[int]
    NVOS_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    NVOS_MAC_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    bmc_mac_address: str
    bmc_username: str
    bmc_password: str
    switch_serial_number: str
    rack_id: _common_pb2.RackId
    nvos_username: str
    nvos_password: str
    nvos_mac_addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, bmc_mac_address: _Optional[str] = ..., bmc_username: _Optional[str] = ..., bmc_password: _Optional[str] = ..., switch_serial_number: _Optional[str] = ..., rack_id: _Optional[_Union[_common_pb2.RackId, _Mapping]] = ..., nvos_username: _Optional[str] = ..., nvos_password: _Optional[str] = ..., nvos_mac_addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class ExpectedRack(_message.Message):
    __slots__ = ("rack_id", "rack_profile_id")
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_PROFILE_ID_FIELD_NUMBER: _ClassVar[int]
    rack_id: _common_pb2.RackId
    rack_profile_id: _common_pb2.RackProfileId
    def __init__(self, rack_id: _Optional[_Union[_common_pb2.RackId, _Mapping]] = ..., rack_profile_id: _Optional[_Union[_common_pb2.RackProfileId, _Mapping]] = ...) -> None: ...

class ExpectedRackRequest(_message.Message):
    __slots__ = ("rack_id",)
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    rack_id: str
    def __init__(self, rack_id: _Optional[str] = ...) -> None: ...

class AdminForceDeleteMachineRequest(_message.Message):
    __slots__ = ("host_query", "delete_interfaces", "delete_bmc_interfaces", "delete_bmc_credentials")
    HOST_QUERY_FIELD_NUMBER: _ClassVar[int]
    DELETE_INTERFACES_FIELD_NUMBER: _ClassVar[int]
    DELETE_BMC_INTERFACES_FIELD_NUMBER: _ClassVar[int]
    DELETE_BMC_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    host_query: str
    delete_interfaces: bool
    delete_bmc_interfaces: bool
    delete_bmc_credentials: bool
    def __init__(self, host_query: _Optional[str] = ..., delete_interfaces: _Optional[bool] = ..., delete_bmc_interfaces: _Optional[bool] = ..., delete_bmc_credentials: _Optional[bool] = ...) -> None: ...

class AdminForceDeleteMachineResponse(_message.Message):
    __slots__ = ("all_done",)
    ALL_DONE_FIELD_NUMBER: _ClassVar[int]
    all_done: bool
    def __init__(self, all_done: _Optional[bool] = ...) -> None: ...
