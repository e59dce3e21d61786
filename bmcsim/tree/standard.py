"""The schemas that DMTF publishes (DSP8010 2025.4): any other is a vendor's, which the vendor has to describe."""

_NAMES = """
    AccelerationFunction AccountService ActionInfo AddressPool Aggregate AggregationService AggregationSource AllowDeny
    Application Assembly AttributeRegistry AutomationInstrumentation AutomationNode Battery BatteryMetrics Bios
    BootOption Cable Certificate CertificateEnrollment CertificateLocations CertificateService Chassis Circuit
    CollectionCapabilities ComponentIntegrity CompositionReservation CompositionService ComputerSystem Connection
    ConnectionMethod Container ContainerImage Control CoolantConnector CoolingLoop CoolingUnit CXLLogicalDevice Drive
    DriveMetrics Endpoint EndpointGroup EnvironmentMetrics EthernetInterface Event EventDestination EventService
    ExternalAccountProvider Fabric FabricAdapter Facility Fan Filter GraphicsController Heater HeaterMetrics
    HostInterface IPAddresses Job JobDocument JobExecutor JobService JsonSchemaFile Key KeyPolicy KeyService
    LeakDetection LeakDetector License LicenseService LogEntry LogService Manager ManagerAccount ManagerDiagnosticData
    ManagerNetworkProtocol Manifest MediaController Memory MemoryChunks MemoryDomain MemoryMetrics MemoryRegion Message
    MessageRegistry MessageRegistryFile MetricDefinition MetricReport MetricReportDefinition NetworkAdapter
    NetworkAdapterMetrics NetworkDeviceFunction NetworkDeviceFunctionMetrics NetworkInterface NetworkPort
    OperatingConfig OperatingSystem OutboundConnection Outlet OutletGroup PCIeDevice PCIeFunction PCIeSlots
    PhysicalContext Port PortMetrics Power PowerDistribution PowerDistributionMetrics PowerDomain PowerEquipment
    PowerSubsystem PowerSupply PowerSupplyMetrics PrivilegeRegistry Privileges Processor ProcessorMetrics Protocol Pump
    Redundancy RegisteredClient Reservoir ResolutionStep Resource ResourceBlock Role RouteEntry RouteSetEntry Schedule
    SecureBoot SecureBootDatabase SecurityPolicy Sensor SerialInterface ServiceConditions ServiceRoot Session
    SessionService Settings Signature SimpleStorage SoftwareInventory Storage StorageController StorageControllerMetrics
    StorageMetrics Switch SwitchMetrics Task TaskService TelemetryData TelemetryService Thermal ThermalEquipment
    ThermalMetrics ThermalSubsystem Triggers TrustedComponent UpdateService UpdateServiceCapabilities USBController
    VCATEntry VirtualCXLSwitch VirtualMedia VirtualPCI2PCIBridge VLanNetworkInterface Volume Zone
"""

SCHEMAS = frozenset(_NAMES.split())
"""Without collections, which are called after their members."""


def is_standard(schema: str) -> bool:
    """Whether a schema, such as Chassis or ChassisCollection, is one of DMTF's."""
    return schema.removesuffix("Collection") in SCHEMAS
